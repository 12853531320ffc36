from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from benchkit.plugins.go_modules.developer import (
    GO_DEVELOPER,
    DeveloperOptions,
    ModuleProof,
    proof_document,
)
from benchkit.plugins.go_modules.git_server import SshKeyFile
from benchkit.plugins.go_modules.reverse_proxy import NetrcFile
from benchkit.services.backend import RenderRequest
from benchkit.services.placement import Endpoint, ServicePlacement
from benchkit.services.service import Service, ServiceFile

PEERS = {
    "vcs": Endpoint("vcs", "ssh", "10.0.0.3", 2222, user="bench"),
    "upstream": Endpoint("upstream", "http1", "10.0.0.4", 8083),
    "names": Endpoint("proxy", "http1", "10.0.0.2", 8000),
    "site": Endpoint("proxy", "https1", "10.0.0.2", 8443),
    "open": Endpoint("proxy", "http1", "10.0.0.2", 8080),
}
BASE: dict[str, Any] = {
    "backend": "go-developer",
    "listen": 9090,
    "private": ["mycompany.com/go", "*.example/x"],
    "warm": "mycompany.com/go/module1@v1.0.0",
    "proof": [{"get": "mycompany.com/go/module1@v1.0.0", "version": "v1.0.0"}],
}


def render(place: Callable[..., ServicePlacement], **options: object) -> Service:
    checked = DeveloperOptions.model_validate(BASE | options)
    return GO_DEVELOPER.render(
        RenderRequest("developer", checked, place("developer"), Endpoint("one", "http1", "10.0.0.1", 9090), PEERS)
    )


def document(service: Service) -> dict[str, Any]:
    (content,) = (file.content for file in service.files if file.path.name == "developer.json")
    assert isinstance(content, bytes)
    settings: dict[str, Any] = json.loads(content)
    return settings


def by_name(service: Service) -> dict[str, ServiceFile]:
    return {file.path.name: file for file in service.files}


def test_settings_for_a_site_with_users(place: Callable[..., ServicePlacement]) -> None:
    service = render(place, site="site", user="alice")
    assert service.is_verifier
    assert document(service)["settings"] == {
        "GONOSUMDB": "mycompany.com/go,*.example/x",
        "GOPROXY": "https://10.0.0.2:8443",
    }
    environment = document(service)["environment"]
    assert environment["NETRC"] == "/w/stack/cell/developer/netrc"
    assert environment["SSL_CERT_FILE"] == "/w/stack/cell/developer/certificate.pem"
    assert by_name(service)["netrc"].content == NetrcFile(PEERS["site"], "alice")
    assert by_name(service)["netrc"].mode == 0o600
    (line,) = service.instructions
    assert line.value == "go env -w 'GONOSUMDB=mycompany.com/go,*.example/x' GOPROXY=https://10.0.0.2:8443"


def test_settings_for_an_open_site(place: Callable[..., ServicePlacement]) -> None:
    service = render(place, site="open", checksum_database=False)
    assert document(service)["settings"]["GOPROXY"] == "http://10.0.0.2:8080"
    assert document(service)["settings"]["GOSUMDB"] == "off"
    assert set(by_name(service)) == {"developer", "developer.json"}


def test_settings_for_direct_access_to_repositories(place: Callable[..., ServicePlacement]) -> None:
    service = render(place, vcs="vcs", vanity="names", upstream="upstream")
    assert document(service)["settings"] == {
        "GOINSECURE": "mycompany.com/go,*.example/x",
        "GONOPROXY": "mycompany.com/go,*.example/x",
        "GONOSUMDB": "mycompany.com/go,*.example/x",
        "GOPROXY": "http://10.0.0.4:8083",
    }
    environment = document(service)["environment"]
    assert (environment["HTTP_PROXY"], environment["NO_PROXY"]) == ("http://10.0.0.2:8000", "10.0.0.4")
    assert environment["GIT_SSH_COMMAND"] == "ssh -F /w/stack/cell/developer/ssh_config"
    assert by_name(service)["ssh_key"].content == SshKeyFile("reader developers of vcs 10.0.0.3:2222", "private")


def test_the_option_cache_selects_the_module_to_pull(place: Callable[..., ServicePlacement]) -> None:
    cold = {"cold": "mycompany.com/go/new-{n}@v1.0.0"}
    assert document(render(place, site="open", cache="cold", **cold))["pull"] == cold["cold"]
    for cache in ("none", "warm"):
        assert document(render(place, site="open", cache=cache, **cold))["pull"] == BASE["warm"]


def test_a_proof_is_a_program_that_prints_constants() -> None:
    document_of_proofs = proof_document(
        (
            ModuleProof(get="a.example/x@v1.0.0", version="v1.0.0", constant="Version", value="v1.0.0"),
            ModuleProof(get="a.example/y/p@main", module="a.example/y", version="v1.0.1-0.*", package="a.example/y/p"),
        )
    )
    assert document_of_proofs == {
        "get": ["a.example/x@v1.0.0", "a.example/y/p@main"],
        "versions": {"a.example/x": r"^v1\.0\.0$", "a.example/y": r"^v1\.0\.1-0\..*$"},
        "program": (
            'package main\n\nimport (\n\t"os"\n\n\tm0 "a.example/x"\n\t_ "a.example/y/p"\n)\n\n'
            'func main() {\n\tos.Stdout.WriteString(m0.Version + "\\n")\n}\n'
        ),
        "output": "v1.0.0\n",
    }
    without_constants = proof_document((ModuleProof(get="a.example/x@v1.0.0", version="v1.0.0"),))
    assert without_constants["program"] == 'package main\n\nimport (\n\t_ "a.example/x"\n)\n\nfunc main() {\n}\n'


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"site": "site", "vcs": "vcs"}, "with a site, vcs would not be used"),
        ({"user": "alice"}, "a user without a site"),
        ({"site": "site", "cache": "cold"}, "cache: cold needs cold"),
        ({"site": "site", "cache": "cold", "cold": "a.example/x@v1.0.0"}, "cache: cold needs cold"),
        ({"warm": "mycompany.com/go/module1"}, "should match pattern"),
        ({"proof": [{"get": "a.example/x@v1", "version": "v1", "constant": "Version"}]}, "needs constant and value together"),
        ({"private": []}, "at least 1 item"),
        ({"upstream": "ftp://x"}, "a service of the stack, or the URL of a module proxy"),
        ({"upstream": "https://user:secret@x"}, "a service of the stack, or the URL of a module proxy"),
    ],
)  # fmt: skip
def test_invalid_options_are_rejected(options: dict[str, object], expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        DeveloperOptions.model_validate(BASE | options)
