from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path, PurePosixPath

import pytest

from benchkit.errors import InputError, UnsupportedError
from benchkit.files import BACKENDS
from benchkit.services.builds import builds_of
from benchkit.services.images import ServerImage
from benchkit.services.placement import CpuQuota, HostProgram, ServicePlacement
from benchkit.services.rendering import ServiceSpec, render_services
from benchkit.services.service import Service
from tests.support.builders import read_scenario
from tests.support.services.placements import PLACE

APP = {"backend": "container", "image": "me/app:1.2", "pull": "missing", "listen": 8080}


def place(spec: ServiceSpec, **programs: str) -> ServicePlacement:
    return replace(
        PLACE,
        folder=PurePosixPath("/w/stack/cell") / spec.name,
        goarch="arm64",
        programs={name: HostProgram(path, ()) for name, path in (programs or {"podman": "/usr/bin/podman"}).items()},
        quota=CpuQuota("sut", 0.5),
        port_shift=1,
    )


def render(folder: Path, *, programs: dict[str, str] | None = None, **services: dict[str, object]) -> list[Service]:
    stack = {"entry": next(iter(services)), "services": services}
    specs = read_scenario(folder, stacks={"one": stack}).cells[0].services
    return list(render_services(specs, lambda spec: place(spec, **(programs or {}))))


def test_a_container_is_a_command_of_its_engine(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    options = {
        "network": "host",
        "command": "--listen {host}:{port} --threads {cpus}",
        "environment": {"MODE": "production"},
        "files": ["site"],
        "mounts": ["./site:/srv", "data:/var/lib/app", "/etc/ssl:/ssl:rw"],
        "memory": "64m",
        "user": "1000:1000",
        "read_only": True,
        "quota": 0.25,
        "cpus": 1,
    }
    (service,) = render(tmp_path, app={**APP, **options})
    container = service.container
    assert container is not None
    assert service.process.argv == (
        *(
            "/usr/bin/podman",
            "--log-level",
            "error",
            "run",
            "--name",
            container.name,
            "--pull",
            "never",
            "--log-driver",
            "none",
        ),
        *("--cgroups", "no-conmon", "--ulimit", "host", "--cpuset-cpus", "0", "--cpus", "0.25", "--memory", "64m"),
        *("--user", "1000:1000", "--read-only", "--network", "host"),
        *("--mount", "type=bind,source=/w/stack/cell/app/site,target=/srv,readonly"),
        *("--volume", f"{container.name}-data:/var/lib/app", "--mount", "type=bind,source=/etc/ssl,target=/ssl"),
        *("--env", "MODE=production"),
        *("me/app:1.2", "--listen", "10.0.0.1:8081", "--threads", "1"),
    )
    assert service.process.quota == CpuQuota("sut", 0.25, is_own=True)
    assert (container.archive, container.volumes, container.bridge) == (None, (f"{container.name}-data",), None)


def test_docker_publishes_a_port_and_the_quota_of_the_role_holds(tmp_path: Path) -> None:
    (service,) = render(tmp_path, programs={"docker": "/bin/docker"}, app={**APP, "port": 80, "command": "{port}"})
    container = service.container
    assert container is not None
    assert container.bridge is not None
    address = container.bridge.subnet.replace(".0/24", ".2")
    assert service.process.argv[8:] == (
        *("--ulimit", "nofile=20000", "--cpuset-cpus", "0,1", "--cpu-period", "10000", "--cpu-quota", "5000"),
        *("--network", container.bridge.name, "--ip", address, "--publish", "10.0.0.1:8081:80/tcp", "me/app:1.2", "80"),
    )
    assert (service.endpoint.port, container.port) == (8081, 80)


def test_http3_publishes_the_udp_port_and_has_the_server_of_that_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = tmp_path / "podman"  # looked up on this machine, and not started to render a service
    engine.touch(mode=0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    app = {"backend": "container", "server": "nethttp", "listen": 8081, "port": 80, "protocol": "h3"}
    (service,) = render(tmp_path, app=app)
    argv = " ".join(service.process.argv)
    assert "--publish 10.0.0.1:8082:80/tcp --publish 10.0.0.1:8082:80/udp" in argv
    assert "-listen 0.0.0.0:80 " in argv
    assert " -protocol h3 -tls-certificate /w/stack/cell/app/tls/certificate.pem " in argv
    (built,) = builds_of(service)
    assert isinstance(built, ServerImage)
    assert built.context == BACKENDS / "nethttp" / "h3"
    with pytest.raises(UnsupportedError, match="fasthttp does not speak it"):
        render(tmp_path, app={**app, "server": "fasthttp"})


def test_containers_of_a_stack_reach_each_other_by_name(tmp_path: Path) -> None:
    database = {**APP, "network": "bridge", "listen": 5432}
    app, db = render(tmp_path, app={**APP, "peers": {"db": "database"}}, database=database)
    assert db.endpoint.port == 5432
    assert app.process.argv[-3:-1] == ("--add-host", f"db:{db.endpoint.address}")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"server": "nethttp"}, "one of `image`, `build` and `server` is required"),
        ({"build": {}}, "one of `image`, `build` and `server` is required"),
        ({"listen": "unix"}, "a container needs a port"),
        ({"network": "host", "port": 80}, "on the host's network it is the port of `listen`"),
        ({"source": {"ref": "v1"}}, "a version needs a `build`"),
        ({"command": "{socket}"}, r"no placeholder \{socket\}"),
        ({"mounts": ["site/x:/srv"]}, r"write \./site/x for a file of `files`"),
        ({"peers": {"db": "nobody"}}, "no other service 'nobody' in this stack"),
        ({"memory": "much"}, "memory"),
    ],
)
def test_options_that_do_not_fit_are_named(tmp_path: Path, options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        render(tmp_path, app={**APP, **options})
