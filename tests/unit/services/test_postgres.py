"""PostgreSQL and the server that asks it, as services."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath

import pytest

from benchkit.errors import InputError
from benchkit.services.placement import HostProgram, ServicePlacement
from benchkit.services.rendering import ServiceSpec, render_services
from benchkit.services.service import Service
from tests.support.builders import read_scenario
from tests.support.services.placements import PLACE

DATABASE = {"backend": "postgres", "listen": "127.0.0.1:5432", "settings": {"autovacuum": False, "work_mem": "8MB"}}
APP = {"backend": "pghttp", "listen": 8080, "database": "database", "pool": 4}


def render(
    folder: Path,
    services: Mapping[str, object] | None = None,
    *,
    root: bool = True,
    programs: tuple[str, ...] = ("postgres",),
) -> list[Service]:
    def place(spec: ServiceSpec) -> ServicePlacement:
        found = {name: HostProgram(f"/usr/bin/{name}", (15, 4)) for name in programs}
        user = "root" if root else "me"
        return replace(PLACE, folder=PLACE.folder / spec.name, user=user, root=root, programs=found)

    stack = {"entry": "app", "services": {"database": DATABASE, "app": APP, **(services or {})}}
    return list(render_services(read_scenario(folder, stacks={"one": stack}).cells[0].services, place))


@pytest.mark.parametrize("root", [True, False])
def test_it_starts_in_a_fresh_folder_and_as_a_user_who_may_run_it(tmp_path: Path, *, root: bool) -> None:
    database, app = render(tmp_path, root=root)
    assert [file.path.name for file in database.files] == ["start.sh"]
    shell = ("unshare", "--mount", "--propagation", "private", "sh") if root else ("sh",)
    assert database.process.argv == (
        *(*shell, "/w/database/start.sh", "/usr/bin/postgres", "/w/database/data", "-h", "127.0.0.1", "-p", "5432"),
        *("-c", "unix_socket_directories=", "-c", "dynamic_shared_memory_type=mmap"),
        *("-c", "autovacuum=off", "-c", "work_mem=8MB"),
    )
    assert database.scratch_folders == (PurePosixPath("/w/database/data"),)
    assert app.process.argv[-6:] == (
        *("-database", "postgres://postgres@127.0.0.1:5432/postgres?sslmode=disable"),
        *("-pool", "4", "-rows", "10000"),
    )


@pytest.mark.parametrize(
    ("services", "message"),
    [
        ({"database": {**DATABASE, "listen": "unix"}}, "PostgreSQL needs a port"),
        ({"database": {"backend": "nethttp", "listen": 9000}}, "database speaks http1; allowed: a service of postgres"),
        ({"app": {**APP, "database": "nobody"}}, "nobody"),
        ({"database": {**DATABASE, "settings": {"Work Mem": 1}}}, "settings"),
    ],
)
def test_options_that_do_not_fit_are_named(tmp_path: Path, services: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        render(tmp_path, services)
