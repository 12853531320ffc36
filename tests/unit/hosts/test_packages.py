from __future__ import annotations

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


@pytest.mark.parametrize(
    ("binary", "manager"), [("apt-get", "apt"), ("dnf", "dnf"), ("brew", "brew"), ("apt", None), ("yast", None)]
)
def test_the_package_manager_is_found_by_its_command(tmp_path: Path, binary: str, manager: str | None) -> None:
    _executable(tmp_path / "bin", binary)
    assert manager_here(str(tmp_path / "bin")) == manager
