from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from benchkit.hosts.packages import (
    find_here,
    manager_here,
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


def test_what_no_package_has_is_named() -> None:
    assert packages_for(("nginx", "wrk", "hey"), "dnf") == (("nginx",), ("wrk", "hey"))


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
