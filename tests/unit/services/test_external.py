from __future__ import annotations

from pathlib import Path

import pytest

from benchkit.errors import InputError, UnsupportedError
from benchkit.scenario.experiment import Cell
from benchkit.services.certificates import RunAuthority, verified_name
from benchkit.services.placement import Endpoint
from tests.support.builders import read_scenario


def read_cell(folder: Path, **services: dict[str, object]) -> Cell:
    (cell,) = read_scenario(folder, stacks={"one": {"entry": "app", "services": services}}).cells
    return cell


@pytest.mark.parametrize(
    ("url", "endpoint"),
    [
        ("http://192.0.2.10:8080", Endpoint("192.0.2.10", "http1", "192.0.2.10", 8080)),
        ("http://server.example/", Endpoint("server.example", "http1", "server.example", 80)),
        ("http://[2001:db8::1]:81", Endpoint("2001:db8::1", "http1", "2001:db8::1", 81)),
    ],
)
def test_an_external_service_is_the_socket_of_its_url(tmp_path: Path, url: str, endpoint: Endpoint) -> None:
    cell = read_cell(tmp_path, app={"backend": "external", "url": url})
    assert cell.services == ()
    assert [service.endpoint for service in cell.external] == [endpoint]


def test_an_external_service_over_tls_is_verified_by_the_file_that_it_names(tmp_path: Path) -> None:
    certificate = tmp_path / "authority.pem"
    certificate.write_bytes(RunAuthority().read())
    tls = {"certificate": certificate.name, "version": "1.2"}
    named, addressed = (
        read_cell(tmp_path, app={"backend": "external", "tls": tls, **options}).external[0].endpoint
        for options in ({"url": "https://server.example"}, {"url": "https://192.0.2.10:8443", "protocol": "h2"})
    )
    assert (named.protocol, named.origin) == ("https1", "https://server.example:443")
    assert (addressed.protocol, addressed.origin) == ("h2", "https://192.0.2.10:8443")
    assert named.tls is not None
    assert (named.tls.certificate, named.tls.version) == (str(certificate), "1.2")
    assert verified_name(named) == "server.example"
    with pytest.raises(UnsupportedError, match=r"https://192\.0\.2\.10:8443 names no host"):
        verified_name(addressed)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"url": "ftp://192.0.2.10"},
            "app.url: found 'ftp://192.0.2.10'; allowed: http[s]://HOST or http[s]://HOST:PORT",
        ),
        ({"url": "https://192.0.2.10"}, "app.tls.certificate: is missing: the file (PEM) that verifies the server"),
        ({"url": "https://192.0.2.10", "tls": {"certificate": "no.pem"}}, "app.tls.certificate: cannot read"),
        ({"url": "https://192.0.2.10", "protocol": "h2c"}, "protocol: h2c does not fit https://192.0.2.10"),
        ({"url": "http://192.0.2.10", "protocol": "h2"}, "protocol: h2 does not fit http://192.0.2.10"),
        ({"url": "http://192.0.2.10/path"}, "the load has the path (load.path)"),
        ({"url": "http://me:pass@192.0.2.10"}, "app.url: a URL must not contain user and password"),
        ({"url": "http://192.0.2.10:0"}, "app.url: found"),
        ({"url": "http://192.0.2.10", "listen": 80}, "app.listen: no such field; allowed: backend, url, protocol, tls"),
        ({}, "app.url: is missing"),
    ],
)
def test_faults_name_file_line_and_field(tmp_path: Path, options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError) as caught:
        read_cell(tmp_path, app={"backend": "external", **options})
    assert message in str(caught.value)
    assert "small.yaml:4: stacks.one.services.app" in str(caught.value)
