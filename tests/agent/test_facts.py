from __future__ import annotations

import hashlib
import io
import os
import platform
import resource
import stat
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest

from benchkit.agent.common import RefusedError
from benchkit.agent.interfaces import interfaces
from benchkit.agent.machine import memory_bytes, physical_cores
from benchkit.agent.psutil_copy import unpack
from benchkit.hosts.agent_link import Link
from benchkit.hosts.psutil_wheel import psutil_for

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def facts(agent: Link) -> Mapping[str, Any]:
    tools = {"sh": ["sh"], "python": [sys.executable, "-c", "print('3.x', end='')"], "nothing": ["no-such-tool", "-V"]}
    asked = {"tools": tools, "sysctls": ["kernel.ostype", "no.such"], "sudo": False}
    found: Mapping[str, Any] = agent.request("facts", asked, time_s=20).fields["facts"]
    return found


def test_facts_are_those_of_this_machine(facts: Mapping[str, Any]) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert facts["hostname"] == platform.node()
    assert (facts["system"], facts["kernel"], facts["machine"]) == ("Linux", platform.release(), platform.machine())
    assert facts["cpus"] == sorted(os.sched_getaffinity(0))
    assert facts["memory_bytes"] == psutil.virtual_memory().total
    assert (facts["nofile_soft"], facts["nofile_hard"]) == (soft, hard)
    assert (facts["uid"], facts["can_sudo"]) == (os.geteuid(), None)
    loopback = next(each for each in facts["interfaces"] if each["name"] == "lo")
    assert "127.0.0.1" in loopback["addresses"]
    assert loopback["virtual"] is True, "nothing holds it to a rate"
    assert facts["sysctls"]["kernel.ostype"]["value"] == "Linux"
    assert facts["sysctls"]["no.such"]["state"] == "absent"
    assert facts["glibc"] == platform.libc_ver()[1]


def test_tools_are_found_and_asked(facts: Mapping[str, Any]) -> None:
    assert facts["tools"].keys() == {"sh", "python"}
    assert facts["tools"]["sh"]["text"] is None
    assert facts["tools"]["python"] == {"path": sys.executable, "text": "3.x"}


def test_of_a_file_its_size_and_time_are_told(agent: Link, tmp_path: Path) -> None:
    program, link = tmp_path / "program", tmp_path / "link"
    program.write_bytes(b"abc")
    os.utime(program, (7, 1.5))
    link.symlink_to(program)
    asked = {"tools": {}, "sysctls": [], "files": [str(link), str(tmp_path / "gone")]}
    files = agent.request("facts", asked, time_s=20).fields["files"]
    assert files == {str(link): {"bytes": 3, "changed_s": 1.5}, str(tmp_path / "gone"): None}


def test_a_tool_is_asked_once(agent: Link, tmp_path: Path) -> None:
    tool, log = tmp_path / "tool", tmp_path / "log"
    tool.write_text(f"#!/bin/sh\necho asked >> {log}\necho v1; echo $HOME\n")
    tool.chmod(0o755)
    asked = {"tools": {"tool": [str(tool), "-v"]}, "sysctls": []}
    for _ in range(3):
        text = agent.request("facts", asked, time_s=20).fields["facts"]["tools"]["tool"]["text"]
        assert text == f"v1\n{agent.hello().fields['workdir']}/home\n", "what it writes to its home stays with us"
    assert log.read_text() == "asked\n"


def test_plain_proc_says_what_psutil_says() -> None:
    assert memory_bytes() == psutil.virtual_memory().total
    assert physical_cores(None) == psutil.cpu_count(logical=False)
    plain = {each["name"]: set(each["addresses"]) for each in interfaces(None)}
    known = {each["name"]: set(each["addresses"]) for each in interfaces(psutil)}
    assert plain.keys() == known.keys()
    assert all(plain[name] <= known[name] for name in plain), "the kernel's plain call gives one IPv4 address"


def test_core_times_grow(agent: Link) -> None:
    before = agent.request("cores", {}).fields
    sum(range(3_000_000))
    after = agent.request("cores", {}).fields
    assert before["cores"].keys() >= {str(cpu) for cpu in os.sched_getaffinity(0)}
    assert after["monotonic_ns"] > before["monotonic_ns"]
    total = [sum(sum(core.values()) for core in each["cores"].values()) for each in (before, after)]
    assert total[1] > total[0]


def test_psutil_is_taken_in(agent: Link) -> None:
    archive = psutil_for(platform.machine(), platform.libc_ver()[1], platform.python_version()).content
    assert archive is not None
    sha256, mode = put(agent, archive)
    assert agent.request("psutil", {"sha256": sha256, "mode": mode}, time_s=20).fields["version"] == psutil.__version__


def put(agent: Link, content: bytes) -> tuple[str, int]:
    sha256 = hashlib.sha256(content).hexdigest()
    piece = {"token": "t", "sha256": sha256, "mode": 0o600, "size": len(content), "offset": 0}
    assert agent.request("upload", piece, content).fields["stored"]
    return sha256, 0o600


def archive_of(**files: bytes) -> zipfile.ZipFile:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return zipfile.ZipFile(made)


@pytest.mark.parametrize("name", ["../x", "/x", "a/../../x", "a//x", "./x", "a\\..\\x"])
def test_an_archive_does_not_reach_out(tmp_path: Path, name: str) -> None:
    (tmp_path / "in").mkdir()
    with pytest.raises(RefusedError, match="the archive has"):
        unpack(archive_of(**{name: b"x"}), tmp_path / "in", 1000)
    assert list(tmp_path.rglob("x")) == []


def test_an_archive_holds_no_links_and_no_bomb(tmp_path: Path) -> None:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        link = zipfile.ZipInfo("link")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc")
    with pytest.raises(RefusedError, match="no file"):
        unpack(zipfile.ZipFile(made), tmp_path, 1000)
    with pytest.raises(RefusedError, match="more than 1000 bytes"):
        unpack(archive_of(a=bytes(600), b=bytes(600)), tmp_path, 1000)
