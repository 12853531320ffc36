from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path, PurePosixPath

import pytest

from benchkit.errors import InputError, UnsupportedError
from benchkit.scenario.read import read_experiment
from benchkit.services.placement import CpuQuota, HostProgram, Listen, ServicePlacement
from benchkit.services.rendering import ServiceSpec, render_services
from benchkit.services.service import ConfigTest
from tests.support.builders import read_scenario
from tests.support.services.placements import PLACE, config_text

SCENARIO = """\
name: small
title: Small
question: Which?
stacks:
  both:
    entry: front
    services:
      app: {backend: nethttp, listen: "127.0.0.1:9000"}
      front: {backend: nginx, listen: 8080, upstream: app}
load: {tool: wrk, connections: 4, duration_s: 1}
blocks: 2
"""


def read_services(tmp_path: Path, *changes: tuple[str, str]) -> tuple[ServiceSpec, ...]:
    text = SCENARIO
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = tmp_path / "small.yaml"
    path.write_text(text)
    return read_experiment(str(path)).cells[0].services


def place(
    service: ServiceSpec,
    *,
    host: str = "sut",
    cpus: tuple[int, ...] = (0, 1),
    root: bool = False,
    nginx: tuple[int, ...] = (1, 22, 1),
) -> ServicePlacement:
    return replace(
        PLACE,
        host=host,
        cpus=cpus,
        folder=PLACE.folder / service.name,
        user="root" if root else "bench",
        root=root,
        programs={"nginx": HostProgram("/usr/sbin/nginx", nginx, f"nginx version: nginx/{'.'.join(map(str, nginx))}")},
    )


def test_nginx_runs_from_its_own_prefix_and_is_checked_first(tmp_path: Path) -> None:
    _, front = render_services(read_services(tmp_path), place)
    argv = ("/usr/sbin/nginx", "-p", "./", "-c", "nginx.conf", "-e", "stderr")
    assert front.process.argv == argv
    assert front.config_tests == (ConfigTest((*argv, "-t", "-q"), PurePosixPath("/w/front/nginx.conf")),)
    config = config_text(front)
    assert "user " not in config
    assert "worker_processes 2;" in config
    assert "listen 10.0.0.1:8080;" in config
    assert "server 127.0.0.1:9000;\n        keepalive 300;" in config
    assert 'proxy_set_header Connection "";' in config


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("backend: nethttp", "backend: nethtp", "small.yaml:8: stacks.both.services.app.backend: no backend 'nethtp'; did you mean 'nethttp'?"),
        ("backend: nethttp, ", "", "small.yaml:8: stacks.both.services.app: service app: backend is missing"),
        ("upstream: app", "upstream: ap", "small.yaml:9: stacks.both.services.front: no other service 'ap' in this stack; did you mean 'app'?"),
        ("upstream: app", "workers: 2", "small.yaml:9: stacks.both.services.front: needs one of upstream, file_bytes, status, empty_gif, lua_bytes, or upstream with file_bytes; found none"),
        ("upstream: app", "upstream: app, wrkers: 1", "small.yaml:9: stacks.both.services.front.wrkers: no such field"),
        ('"127.0.0.1:9000"', "99999", "small.yaml:8: stacks.both.services.app.listen: found 99999; allowed: a port (8080), address:port"),
        ('"127.0.0.1:9000"', '"127.0.0.1:8080"', "small.yaml:9: stacks.both.services.front.listen: port 8080 is already used by service 'app'"),
        ("listen: 8080", "role: sot, listen: 8080", "small.yaml:9: stacks.both.services.front.role: no role 'sot'; did you mean 'sut'?"),
        ('"127.0.0.1:9000"', '"127.0.0.1:9000", work: "loop:-1"', "small.yaml:8: stacks.both.services.app.work: found 'loop:-1'"),
    ],
)  # fmt: skip
def test_faults_name_file_line_and_field(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        read_services(tmp_path, (old, new))
    assert message in str(error.value)


def test_services_that_a_host_cannot_run_are_rejected_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="cpus 3: sut has 2 CPUs for this role"):
        render_services(read_services(tmp_path, ('9000"', '9000", cpus: 3')), place)
    with pytest.raises(UnsupportedError, match="listen 80: bench on sut may not open a port below 1024"):
        render_services(read_services(tmp_path, ("listen: 8080", "listen: 80")), place)
    with pytest.raises(UnsupportedError, match="sut has no nginx"):
        render_services(read_services(tmp_path), lambda s: replace(place(s), programs={}))


@pytest.mark.parametrize("value", [0, 65536, -1, True, None, 1.5, "x", "host:80", ":80", "1.2.3.4:0", "1.2.3.4:٣"])
def test_invalid_listen_is_rejected(value: object) -> None:
    with pytest.raises(ValueError, match="allowed: a port"):
        Listen.parse(value)


def test_a_service_has_a_quota_of_its_own_below_that_of_its_role(tmp_path: Path) -> None:
    app = {"backend": "nethttp", "listen": 8080, "quota": 0.25}
    specs = read_scenario(tmp_path, stacks={"one": {"entry": "app", "services": {"app": app}}}).cells[0].services
    own, of_role = CpuQuota("sut-app", 0.25, is_own=True), CpuQuota("sut", 0.2)
    for given, expected in ((None, own), (CpuQuota("sut", 0.5), own), (of_role, of_role)):
        at = replace(place(specs[0]), quota=given)
        assert [each.process.quota for each in render_services(specs, partial(_at, at))] == [expected]
    with pytest.raises(UnsupportedError, match="may not create a control group"):
        render_services(specs, partial(_at, replace(place(specs[0]), has_cpu_groups=False)))


def _at(at: ServicePlacement, _spec: ServiceSpec) -> ServicePlacement:
    return at
