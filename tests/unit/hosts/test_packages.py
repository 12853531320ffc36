from __future__ import annotations

from pathlib import Path

from benchkit.hosts.packages import find_here, packages_for

EVERY = ("sshd", "ip", "tc", "nginx", "wrk", "ab", "hey", "siege")


def test_what_debian_installs_for_a_lab() -> None:
    assert packages_for(EVERY) == (
        ("openssh-server", "iproute2", "nginx", "wrk", "apache2-utils", "hey", "siege"),
        (),
    )


def test_a_module_of_another_program_is_found_by_its_file() -> None:
    assert packages_for(("nginx-lua",)) == (("libnginx-mod-http-lua",), ())
    module = Path("/usr/lib/nginx/modules/ngx_http_lua_module.so")
    assert find_here(("nginx-lua",), "/nowhere") == frozenset({"nginx-lua"} if module.is_file() else ())


def test_what_no_package_has_is_named() -> None:
    assert packages_for(("nginx", "oha", "its-own")) == (("nginx",), ("oha", "its-own"))
