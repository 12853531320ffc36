"""nginx on real hosts: other binaries, a separate host, an invalid template."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchkit.errors import InputError
from benchkit.hosts.connections import connect_all
from benchkit.hosts.files import PlacedFile
from benchkit.hosts.inventory import HostSpec, Inventory
from benchkit.lab.lab import Lab, down, up
from benchkit.lab.spec import LabHost, LabSpec
from benchkit.plan.planner import draft_plan, make_plan
from benchkit.scenario.read import read_experiment
from tests.qualify.studies.conftest import RunStudy
from tests.support.builders import write_scenario

NGINX = shutil.which("nginx", path="/usr/sbin:/usr/bin:/usr/local/sbin")

pytestmark = [pytest.mark.skipif(NGINX is None, reason="nginx is not installed")]

BOTH = ("nginx", "nginx-other")

AS_TENGINE = """\
#!/bin/sh
test "$1" = -v && { echo 'Tengine version: Tengine/2.3.2' >&2; echo 'nginx version: nginx/1.17.3' >&2; exit; }
exec %s "$@"
"""
"""Wrapper of the machine's nginx that reports another version."""


def write_page_scenario(folder: Path, binaries: tuple[str, ...] = ("nginx",), **options: object) -> str:
    """Write a scenario of nginx with a page of 7 bytes, or with these options, for each of the binaries."""
    page = {
        "backend": "nginx",
        "listen": 8080,
        "binary": "$binary",
        "reuseport": True,
        **(options or {"file_bytes": 7}),
    }
    stacks = {"one": {"entry": "page", "services": {"page": page}}}
    return str(write_scenario(folder, stacks=stacks, blocks=1, factors={"binary": binaries}))


def with_programs(inventory: Inventory, **programs: str) -> Inventory:
    """Return the inventory with these programs on its host `sut`."""
    hosts = [
        host.model_copy(update={"programs": programs, "written": "hosts.yaml:2"}) if host.name == "sut" else host
        for host in inventory.hosts
    ]
    return inventory.model_copy(update={"hosts": tuple(hosts)})


@pytest.fixture
def opt(lab: Lab) -> Iterator[HostSpec]:
    """Folder `opt` on the host `sut`: nginx, a script that claims to be Tengine, a program that cannot run."""
    files = [
        PlacedFile("opt/nginx", Path(NGINX or ""), 0o755),
        PlacedFile("opt/tengine", (AS_TENGINE % NGINX).encode(), 0o755),
        PlacedFile("opt/unfit", b"\x7fELF of another machine", 0o755),
    ]
    with connect_all(lab.inventory()) as hosts:
        hosts["sut"].files.place(files)
        yield hosts["sut"].spec.model_copy(update={"workdir": str(hosts["sut"].workdir)})
        hosts["sut"].files.remove("opt")


def test_a_scenario_sweeps_the_binaries_of_its_inventory(
    lab: Lab, opt: HostSpec, run_study: RunStudy, tmp_path: Path
) -> None:
    folder = f"{opt.workdir}/opt"
    programs = {"nginx": f"{folder}/tengine", "nginx-other": f"{folder}/nginx"}
    ran = run_study(with_programs(lab.inventory(), **programs), write_page_scenario(tmp_path, BOTH), scale="lab")
    versions = ran.outcome.run.manifest().versions
    assert versions["sut.nginx"] == "2.3.2"
    with connect_all(lab.inventory()) as hosts:
        assert versions["sut.nginx-other"] == hosts["sut"].facts.programs["nginx"].version
    argv = {record.levels["binary"]: record.services[0].argv for record in ran.records.values()}
    assert argv["nginx"][0] == f"{folder}/tengine"
    assert "-e" not in argv["nginx"]  # that version of Tengine does not have the option
    assert argv["nginx-other"][0] == f"{folder}/nginx"
    assert set(ran.trials["probe_body_bytes"]) == {7}
    assert (ran.trials["requests"] > 0).all()


AS_SOURCES = {
    "auto/configure": "#!/bin/sh\nmkdir objs && printf 'all:\\n\\tcp %s objs/nginx\\n' > Makefile\n",
    "src/core/nginx.h": '#define NGINX_VERSION      "1.29.7"\n',
}
"""Files of a repository whose build gives the machine's nginx."""


def test_a_ref_of_a_repository_is_built_and_serves(lab: Lab, run_study: RunStudy, tmp_path: Path) -> None:
    for name, text in AS_SOURCES.items():
        (tmp_path / "nginx" / name).parent.mkdir(parents=True)
        (tmp_path / "nginx" / name).write_text(text.replace("%s", str(NGINX)))
    (tmp_path / "nginx" / "auto" / "configure").chmod(0o755)
    author = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    for words in (("init", "-q"), ("add", "."), (*author, "commit", "-qm", "Start"), ("tag", "release-1.29.7")):
        subprocess.run(["git", *words], cwd=tmp_path / "nginx", check=True)
    source = {"git": "nginx", "ref": "release-1.29.7"}
    scenario = write_page_scenario(tmp_path, source=source, optional=True, file_bytes=7)
    ran = run_study(lab.inventory(), scenario, scale="lab")
    (record,) = ran.records.values()
    assert record.services[0].argv[0].endswith("/page/nginx")
    (cell,) = (cell for cell in ran.outcome.run.manifest().cells)
    assert cell.builds["page"].ref == "release-1.29.7"
    assert set(ran.trials["probe_body_bytes"]) == {7}


def test_the_error_for_a_program_that_cannot_run_names_the_inventory(lab: Lab, opt: HostSpec, tmp_path: Path) -> None:
    programs = {"nginx-other": f"{opt.workdir}/opt/unfit"}
    experiment = read_experiment(write_page_scenario(tmp_path, BOTH))
    with connect_all(with_programs(lab.inventory(), **programs)) as hosts, pytest.raises(InputError) as caught:
        make_plan(experiment, hosts)
    assert "small.yaml:4: stacks.one.services.page.binary" in str(caught.value)
    assert "is it built for this host's architecture?" in str(caught.value)
    assert "hosts.yaml:2: hosts.sut.programs.nginx-other" in str(caught.value)


def test_a_missing_program_is_an_error(lab: Lab, tmp_path: Path) -> None:
    with connect_all(with_programs(lab.inventory(), **{"nginx-other": "/opt/none/nginx"})) as hosts:
        plan, errors = draft_plan(read_experiment(write_page_scenario(tmp_path, BOTH)), hosts)
    assert ["nginx-other is missing" in str(error) for error in errors] == [True]
    assert "/opt/none/nginx, which the inventory names (hosts.sut.programs.nginx-other)" in str(errors[0])
    assert any("/opt/none/nginx is no program that can be run there" in notice for notice in plan.notes)


def test_an_invalid_template_is_reported_before_anything_is_deployed(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "mine.conf.j2").write_text(
        '{% extends "benchkit/files.conf.j2" %}\n{% block location %}\nretrun 200;\n{% endblock %}\n'
    )
    experiment = read_experiment(write_page_scenario(tmp_path, template="mine.conf.j2"))
    with connect_all(lab.inventory()) as hosts:
        before = hosts["sut"].files.list(".")
        with pytest.raises(InputError) as caught:
            make_plan(experiment, hosts)
        after = hosts["sut"].files.list(".")
    assert "small.yaml:4: " in str(caught.value)
    assert "page.template: nginx on sut rejects it" in str(caught.value)
    assert 'unknown directive "retrun" in nginx.conf:' in str(caught.value)
    assert "`retrun 200;`" in str(caught.value)
    assert set(after) - set(before) <= {"judged"}


@pytest.mark.parametrize("listen", ["unix", "127.0.0.1:8080"])
def test_an_entry_that_the_load_cannot_reach_is_reported(lab: Lab, tmp_path: Path, listen: str) -> None:
    scenario = write_page_scenario(tmp_path, file_bytes=7, listen=listen)
    with connect_all(lab.inventory()) as hosts, pytest.raises(InputError) as caught:
        make_plan(read_experiment(scenario), hosts)
    assert "small.yaml:4: " in str(caught.value)
    assert "page.listen: the load goes to this service, which listens on" in str(caught.value)
    assert "load cannot reach it" in str(caught.value)


def test_nginx_on_a_separate_host(run_study: RunStudy, tmp_path: Path) -> None:
    app = {"backend": "nethttp", "role": "sut", "listen": 9000}
    front = {"backend": "nginx", "role": "front", "listen": 8080, "upstream": "app"}
    scenario = write_scenario(
        tmp_path,
        stacks={"one": {"entry": "front", "services": {"app": app, "front": front}}},
        blocks=1,
        roles={"sut": {}, "front": {}, "load": {}},
    )
    hosts = tuple(LabHost(name=role, roles=(role,)) for role in ("sut", "front", "load"))
    lab = up(LabSpec(name=f"pytest-{os.getpid()}-apart", hosts=hosts))
    try:
        ran = run_study(lab.inventory(), scenario, scale="lab")
    finally:
        down(lab.name)
    (record,) = ran.records.values()
    assert {service.name: service.host for service in record.services} == {"app": "sut", "front": "front"}
    assert record.probes[0].header_bytes == 141
    assert all(service.cpu_s for service in record.services)
