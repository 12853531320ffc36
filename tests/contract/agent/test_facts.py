from __future__ import annotations

import os
import platform
import resource
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest

from benchkit.agent.facts import FactsReader, shared_cores, turbo
from benchkit.hosts.agent_link import AgentLink


@pytest.fixture(scope="module")
def facts(agent: AgentLink) -> Mapping[str, Any]:
    tools = {"sh": ["sh"], "python": [sys.executable, "-c", "print('3.x', end='')"], "nothing": ["no-such-tool", "-V"]}
    return agent.call(FactsReader.gather, tools, ["kernel.ostype", "no.such"])


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


def test_size_and_time_of_change_of_a_file(agent: AgentLink, tmp_path: Path) -> None:
    program, link = tmp_path / "program", tmp_path / "link"
    program.write_bytes(b"abc")
    os.utime(program, (7, 1.5))
    link.symlink_to(program)
    files = agent.call(FactsReader.gather, {}, [], files=[str(link), str(tmp_path / "gone")])["files"]
    assert files == {str(link): "3 bytes of 1970-01-01 00:00:01.500000", str(tmp_path / "gone"): None}


@pytest.mark.parametrize(
    ("files", "cores", "is_on"),
    [
        ({"intel_pstate/no_turbo": "0\n"}, [[0, 4], [1, 5]], True),
        ({"intel_pstate/no_turbo": "1\n", "cpufreq/boost": "1\n"}, [[0, 4], [1, 5]], False),
        ({"cpufreq/boost": "1\n"}, [[0, 4], [1, 5]], True),
        ({"cpufreq/boost": "0\n"}, [[0, 4], [1, 5]], False),
        ({f"cpu{n}/topology/thread_siblings_list": f"{n}\n" for n in (0, 1, 4, 5)}, [], None),
        (
            {f"cpu{n}/topology/thread_siblings_list": f"{n - n % 2}-{n - n % 2 + 1}\n" for n in (0, 1, 4, 5)},
            [[0, 1], [4, 5]],
            None,
        ),
    ],
)
def test_hardware_threads_and_turbo_are_read_from_sysfs(
    files: dict[str, str], cores: list[list[int]], *, is_on: bool | None, tmp_path: Path
) -> None:
    siblings = {f"cpu{n}/topology/thread_siblings_list": f"{n % 4},{n % 4 + 4}\n" for n in (0, 1, 4, 5)}
    for name, text in {**siblings, **files}.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert shared_cores(tmp_path) == cores
    assert turbo(tmp_path) is is_on
