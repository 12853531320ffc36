from __future__ import annotations

import shutil
from pathlib import Path
from typing import get_args

import pytest

from benchkit.hosts.packages import (
    PROGRAMS,
    Manager,
    find_here,
    manager_here,
    missing,
    packages_for,
)

EVERY = ("sshd", "ip", "tc", "nginx", "wrk", "ab", "hey", "siege")


def test_what_debian_installs_for_a_lab() -> None:
    assert packages_for(EVERY, "apt") == (
        ("openssh-server", "iproute2", "nginx", "wrk", "apache2-utils", "hey", "siege"),
        (),
    )


def test_two_programs_of_one_package_ask_for_it_once_and_two_packages_for_both() -> None:
    assert packages_for(("ip", "tc"), "apt") == (("iproute2",), ())
    assert packages_for(("ip", "tc"), "dnf") == (("iproute", "iproute-tc"), ())


def test_a_module_of_another_program_is_found_by_its_file() -> None:
    assert packages_for(("nginx-lua",), "apt") == (("libnginx-mod-http-lua",), ())
    module = Path("/usr/lib/nginx/modules/ngx_http_lua_module.so")
    assert find_here(("nginx-lua",), "/nowhere") == frozenset({"nginx-lua"} if module.is_file() else ())


def test_a_program_beside_its_other_versions_is_found_by_a_pattern() -> None:
    is_here = any(Path("/usr/lib/postgresql").glob("*/bin/postgres")) or shutil.which("postgres") is not None
    assert ("postgres" in find_here(("postgres",), "/nowhere")) is is_here


def test_what_no_package_has_is_named() -> None:
    assert packages_for(("nginx", "wrk", "hey"), "dnf") == (("nginx",), ("wrk", "hey"))


@pytest.mark.parametrize("manager", get_args(Manager))
def test_every_manager_brings_something_and_every_program_has_a_home(manager: Manager) -> None:
    packages, unpackaged = packages_for(PROGRAMS, manager)
    assert packages
    assert all(PROGRAMS[program].home.startswith("https://") for program in unpackaged)


def test_names_of_an_inventorys_own_come_with_no_package() -> None:
    assert packages_for(("nginx-mainline", "nginx"), "apt") == (("nginx",), ("nginx-mainline",))


def test_missing_keeps_the_order_of_the_table() -> None:
    assert missing(("wrk", "sshd", "nginx"), {"nginx"}) == ("sshd", "wrk")
    assert missing(EVERY, set(EVERY)) == ()


def _executable(folder: Path, name: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("#!/bin/sh\n")
    (folder / name).chmod(0o755)


def test_programs_are_found_on_the_path_given(tmp_path: Path) -> None:
    _executable(tmp_path / "bin", "wrk")
    (tmp_path / "bin" / "hey").write_text("not executable")
    assert find_here(("wrk", "hey"), str(tmp_path / "bin")) - find_here(("wrk", "hey"), "") <= {"wrk"}
    assert "wrk" in find_here(("wrk",), str(tmp_path / "bin"))


def test_daemons_are_found_where_an_ordinary_path_does_not_look() -> None:
    here = shutil.which("sshd", path="/usr/local/sbin:/usr/sbin:/sbin") is not None
    assert ("sshd" in find_here(("sshd",), "/nowhere")) is here


@pytest.mark.parametrize(
    ("binary", "manager"), [("apt-get", "apt"), ("dnf", "dnf"), ("brew", "brew"), ("apt", None), ("yast", None)]
)
def test_the_package_manager_is_found_by_its_command(tmp_path: Path, binary: str, manager: str | None) -> None:
    _executable(tmp_path / "bin", binary)
    assert manager_here(str(tmp_path / "bin")) == manager
