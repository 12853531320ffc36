from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath

import pytest

from benchkit.agent.operations import StopSignal
from benchkit.errors import InputError, UnsupportedError
from benchkit.plan.model import cell_record
from benchkit.services.builds import BuiltFolder
from benchkit.services.controller_files import LocalFile
from benchkit.services.placement import HostProgram, ServicePlacement
from benchkit.services.rendering import ServiceSpec, render_services
from benchkit.services.service import ReadyRequest, Service, ServiceFile
from tests.support.builders import planned_cells, read_scenario
from tests.support.services.placements import PLACE

RUN = ["./app", "--port", "{port}"]


def read_spec(folder: Path, **options: object) -> ServiceSpec:
    app = {"backend": "command", "listen": 8080, "run": RUN, **options}
    (spec,) = read_scenario(folder, stacks={"one": {"entry": "app", "services": {"app": app}}}).cells[0].services
    return spec


def place(spec: ServiceSpec) -> ServicePlacement:
    programs = {"python3": HostProgram("/usr/bin/python3", (3, 11)), "make": HostProgram("/usr/bin/make", ())}
    return replace(PLACE, folder=PLACE.folder / spec.name, goarch="arm64", programs=programs)


def render(folder: Path, **options: object) -> Service:
    (service,) = render_services([read_spec(folder, **options)], place)
    return service


def test_a_command_is_one_process_with_placeholders_filled_in(tmp_path: Path) -> None:
    service = render(
        tmp_path,
        run="python3 -m app --bind {host}:{port} --workers '{cpus}' --data={folder}/data '{\"a\": {}}' {{port}}",
        env={"MODE": "production", "OUT": "{out}", "SIZE": 3},
        ready={"path": "/health", "status": 204, "within_s": 20},
        stop={"signal": "INT", "within_s": 7},
        may_use_cpus=1,
    )
    assert service.process.argv == (
        *("/usr/bin/python3", "-m", "app", "--bind", "10.0.0.1:8080", "--workers", "2"),
        *("--data=/w/app/data", '{"a": {}}', "{port}"),
    )
    assert service.process.env == {"MODE": "production", "OUT": "/w/app", "SIZE": "3"}
    assert (service.process.cpus, service.process.nofile) == ((0, 1), 20000)
    assert (service.ready_request, service.ready_timeout_s) == (ReadyRequest("/health", 204), 20)
    assert service.stop == StopSignal(signal.SIGINT, 7)
    assert service.parallelism == 1


def test_files_are_carried_and_templates_rendered(tmp_path: Path) -> None:
    (tmp_path / "site" / "deep").mkdir(parents=True)
    (tmp_path / "site" / "deep" / "page.j2").write_text("{{ not ours }}")
    (tmp_path / "start").write_text("#!/bin/sh\n")
    (tmp_path / "start").chmod(0o700)
    (tmp_path / "config.toml.j2").write_text('address = "{{ host }}:{{ port }}"\nroot = "{{ folder }}"\n')
    service = render(tmp_path, run="./start", files=["site/", "start", "config.toml.j2"])
    app = PurePosixPath("/w/app")
    assert service.files == (
        ServiceFile(app / "site/deep/page.j2", LocalFile(tmp_path / "site/deep/page.j2")),
        ServiceFile(app / "start", LocalFile(tmp_path / "start"), 0o755),
        ServiceFile(app / "config.toml", b'address = "10.0.0.1:8080"\nroot = "/w/app"\n'),
    )
    assert service.process.argv == ("/w/app/start",)


def test_runs_record_the_contents_of_files_and_bodies(tmp_path: Path) -> None:
    def recorded(content: str) -> Mapping[str, str]:
        (tmp_path / "site").mkdir(exist_ok=True)
        (tmp_path / "site" / "page").write_text(content)
        (tmp_path / "body.bin").write_text(content)
        app = {"backend": "command", "listen": 8080, "run": "python3 app", "files": ["site"]}
        requests = {"tool": "wrk", "connections": 1, "duration_s": 1, "requests": [{"body_file": "body.bin"}]}
        experiment = read_scenario(tmp_path, stacks={"one": {"entry": "app", "services": {"app": app}}}, load=requests)
        (cell,) = planned_cells(experiment)
        return cell_record(cell).files

    first, second = recorded("one"), recorded("other")
    assert list(first) == list(second) == ["site of app", "body body.bin"]
    assert all(first[name] != second[name] for name in first)
    assert recorded("one") == first


def test_a_build_runs_on_the_controller_for_the_host(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    service = render(
        tmp_path, build={"run": "make -C . OUT={out}", "from": "src", "env": {"MODE": "release", "LEVEL": 2}}
    )
    env = (("LEVEL", "2"), ("MODE", "release"))
    wanted = BuiltFolder(("make", "-C", ".", "OUT={out}"), tmp_path / "src", "linux", "arm64", env=env)
    assert service.files == (ServiceFile(PurePosixPath("/w/app"), wanted),)
    assert service.process.argv == ("/w/app/app", "--port", "8080")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"run": []}, "app.run: found []; allowed: at least 1 of them"),
        ({"run": "./app 'x"}, 'app.run: found "./app \'x", which cannot be split into arguments: No closing quotation'),
        ({"run": "./app | tee log"}, "app.run: found '|', which only a shell understands"),
        ({"run": "./app {prot}"}, "app.run: no placeholder {prot}; did you mean '{port}'?"),
        ({"env": {"A": "{socket}"}}, "app.env.A: no placeholder {socket}"),
        ({"env": {"A": True}}, "app.env.A: found true"),
        ({"files": ["missing"]}, "missing does not exist"),
        ({"build": {"run": "make {port}"}}, "app.build.run: no placeholder {port}; did you mean '{out}'?"),
        ({"build": {"run": "make", "from": "missing"}}, "app.build.from: "),
        ({"build": {"run": "make", "form": "x"}}, "app.build.form: no such field; did you mean 'from'?"),
        ({"stop": {"signal": "KILL"}}, "app.stop.signal: found 'KILL'; allowed: the name of a signal"),
        ({"ready": {"path": "health"}}, "app.ready.path: found 'health'"),
        ({"may_use_cpus": 0}, "app.may_use_cpus: found 0"),
    ],
)
def test_faults_name_file_line_and_field(tmp_path: Path, options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError) as caught:
        read_spec(tmp_path, **options)
    assert message in str(caught.value)
    assert "small.yaml:4: stacks.one.services.app." in str(caught.value)


def test_a_program_that_its_host_lacks_is_unsupported(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="sut has no python3"):
        render_services([read_spec(tmp_path, run="python3 x")], lambda spec: replace(place(spec), programs={}))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("one\n{{ prt }}\n", "app.conf.j2:2: 'prt' is undefined"),
        ("{% if %}\n", "app.conf.j2:1: "),
        ("{{ 1 / 0 }}\n", "app.conf.j2:1: division by zero"),
    ],
)
def test_a_template_that_cannot_be_rendered_names_its_line(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "app.conf.j2").write_text(text)
    with pytest.raises(InputError) as caught:
        render(tmp_path, run="python3 app", files=["app.conf.j2"])
    assert message in str(caught.value)
