"""Versions in recorded outputs of programs, and the conversion of an agent's answer to facts."""

from __future__ import annotations

from typing import Any

import pytest

from benchkit.hosts.clock import Clock
from benchkit.hosts.facts import (
    PROGRAMS,
    parse_facts,
    parse_variable_facts,
    version_in,
)

SIEGE = """New configuration template added to /root/.siege
Run siege -C to view the current settings in that file
SIEGE 4.0.7

Copyright (C) 2018 by Jeffrey Fulmer, et al.
"""
OLD_SSHD = """unknown option -- V
OpenSSH_8.4p1 Debian-5+deb11u3, OpenSSL 1.1.1w  11 Sep 2023
usage: sshd [-46DdeiqTt] [-C connection_spec] [-c host_cert_file]
"""


@pytest.mark.parametrize(
    ("program", "text", "version"),
    [
        ("sshd", "OpenSSH_9.2, OpenSSL 3.0.19 27 Jan 2026\n", "9.2"),  # Debian 12, sshd -V
        ("sshd", OLD_SSHD, "8.4p1"),  # Debian 11, which has no -V
        ("sshd", "OpenSSH_9.2p1 Debian-2+deb12u7, OpenSSL 3.0.17 1 Jul 2025\n", "9.2p1"),
        ("nginx", "nginx version: nginx/1.22.1\n", "1.22.1"),
        ("nginx", "Tengine version: Tengine/2.3.3\nnginx version: nginx/1.18.0\n", "2.3.3"),
        ("nginx", "Tengine version: Tengine/2.1.0 (nginx/1.6.2)\n", "2.1.0"),
        ("nginx", "nginx version: openresty/1.27.1.1\n", "1.27.1.1"),
        ("nginx", "Angie version: Angie/1.7.0\n", "1.7.0"),
        ("wrk", "wrk debian/4.1.0-3+b2 [epoll] Copyright (C) 2012 Will Glozer\n", "4.1.0-3+b2"),
        ("wrk", "wrk 4.2.0 [epoll] Copyright (C) 2012 Will Glozer\n", "4.2.0"),
        ("ab", "This is ApacheBench, Version 2.3 <$Revision: 1923142 $>\nCopyright 1996 Adam Twiss\n", "2.3"),
        ("siege", SIEGE, "4.0.7"),
        ("vegeta", "Version: 12.8.4\nCommit: \nRuntime: go1.26.8 linux/amd64\nDate: \n", "12.8.4"),
        ("vegeta", "Version: v12.11.1\nCommit: abc\n", "12.11.1"),
        ("h2load", "h2load nghttp2/1.52.0\n", "1.52.0"),
        ("perf", "perf version 6.1.187\n", "6.1.187"),
        ("go", "go version go1.26.8 linux/amd64\n", "1.26.8"),
        ("go", "go version go1.27rc1 linux/arm64\n", "1.27rc1"),
        ("node", "v20.20.2\n", "20.20.2"),
        ("ip", "ip utility, iproute2-6.1.0, libbpf 1.1.2\n", "6.1.0"),
        ("tc", "tc utility, iproute2-6.1.0, libbpf 1.1.2\n", "6.1.0"),
        ("node", "Segmentation fault\n", None),
        ("go", "", None),
        ("hey", None, None),
    ],
)
def test_versions_as_programs_print_them(program: str, text: str | None, version: str | None) -> None:
    assert version_in(text, PROGRAMS[program].pattern) == version


def answer(**changed: Any) -> dict[str, Any]:  # noqa: ANN401 - as it comes in a message
    return {
        "hostname": "box",
        "system": "Linux",
        "kernel": "6.1.0",
        "machine": "aarch64",
        "distribution": "Debian GNU/Linux 12 (bookworm)",
        "glibc": "2.36",
        "python": "3.11.2",
        "cpus": [0, 2],
        "cpu_model": None,
        "cores": 4,
        "memory_bytes": 8 << 30,
        "user": "bench",
        "uid": 1000,
        "can_sudo": None,
        "nofile_soft": 1024,
        "nofile_hard": None,
        "boot_id": "b",
        "interfaces": [{"name": "lo", "mtu": 65536, "speed_bps": None, "up": True, "addresses": ["127.0.0.1"]}],
        "governor": None,
        "virtualisation": None,
        "sysctls": {
            "net.ipv4.ip_local_port_range": {"state": "present", "value": "32768\t60999", "writable": False},
            "no.such": {"state": "absent", "value": None, "writable": False},
        },
        "workdir": "/srv/bench",
        "tools": {"go": {"path": "/usr/bin/go", "text": "go version go1.26.8 linux/arm64\n"}, "apt": {"path": "/usr/bin/apt-get", "text": None}},
        **changed,
    }  # fmt: skip


def test_an_answer_becomes_facts() -> None:
    facts = parse_facts(answer(), Clock(0, -0.5, 0.001))
    assert (facts.os, facts.goarch, facts.root, facts.package_manager) == ("linux", "arm64", False, "apt")
    assert facts.programs.keys() == {"go", "apt"}
    assert facts.programs["go"].version == "1.26.8"
    assert facts.sysctls == {"net.ipv4.ip_local_port_range": "32768 60999", "no.such": None}
    assert (facts.clock_offset_s, facts.clock_uncertainty_s) == (-0.5, 0.001)
    assert (facts.cpus, facts.nofile_hard) == ((0, 2), None)
    assert parse_facts(answer(uid=0, machine="vax"), Clock(0, 0, 0)).root
    assert parse_facts(answer(machine="vax"), Clock(0, 0, 0)).goarch is None


def test_variable_facts_are_converted_with_the_versions_of_programs() -> None:
    answer: dict[str, Any] = {
        "kernel": "6.1",
        "cpus": [0, 1],
        "cores": 2,
        "memory_bytes": 4096,
        "nofile_soft": 1024,
        "nofile_hard": None,
        "governor": None,
        "hostname": "not variable",
        "sysctls": {"a.b": {"value": "1\t2"}, "missing": {"value": None}},
    }
    programs = {"nginx": "/opt/nginx", "go": "/opt/go"}
    answer["files"] = {"/opt/nginx": "3 bytes of 1970-01-01 00:00:01.500000", "/opt/go": None}
    facts = parse_variable_facts(answer, Clock(0, 0.25, 0.001), programs)
    assert facts.sysctls == {"a.b": "1 2"}
    assert facts.executables == {"nginx": "3 bytes of 1970-01-01 00:00:01.500000", "go": None}
    assert (facts.cpus, facts.nofile_hard, facts.clock_offset_s) == ((0, 1), None, 0.25)
