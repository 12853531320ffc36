from __future__ import annotations

import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchkit.agent import operations as ops
from benchkit.agent.files import FileStore
from benchkit.agent.processes import ProcessTable
from benchkit.hosts.agent_link import AgentLink, RefusedError
from tests.support.waiting import wait_until


def start(
    agent: AgentLink,
    *argv: str,
    at_ns: int | None = None,
    **spec: Any,  # noqa: ANN401 - fields of the process
) -> ops.ProcessReport:
    """Start a process."""
    return agent.call(ProcessTable.start, ops.ProcessSpec(argv, **spec), at_ns)


def wait(agent: AgentLink, number: int, timeout_s: float = 60) -> ops.ProcessReport:
    return agent.call_within(timeout_s, ProcessTable.wait, number, timeout_s)


def end(agent: AgentLink, process: ops.ProcessReport) -> ops.ExitStatus:
    """Wait for the end of a process."""
    return ended(wait(agent, process.id))


def ended(report: ops.ProcessReport) -> ops.ExitStatus:
    assert report.ended is not None
    return report.ended


def stop(agent: AgentLink, *processes: ops.ProcessReport, grace_s: float = 30) -> ops.StoppedProcesses:
    ids = [each.id for each in processes]
    return agent.call_within(grace_s + 5, ProcessTable.stop, ids, signal.SIGTERM, grace_s)


def run(
    agent: AgentLink, *argv: str, body: bytes = b"", timeout_s: float = 10, max_bytes: int = 65536
) -> ops.Completed:
    return agent.call_within(timeout_s, ProcessTable.run, ops.ProcessSpec(list(argv)), timeout_s, max_bytes, body)


def members(agent: AgentLink, process: ops.ProcessReport) -> dict[str, int]:
    """Return the members of a started process: name → pid."""
    return {member.name: member.pid for member in agent.call(ProcessTable.members, process.id)}


def test_exit_codes_signals_and_what_was_used(agent: AgentLink) -> None:
    status = end(agent, start(agent, "/bin/sh", "-c", "exit 7"))
    assert (status.exit_code, status.signal) == (7, None)
    busy = wait(agent, start(agent, sys.executable, "-c", "sum(range(3_000_000))").id)
    assert ended(busy).user_s > 0.01
    assert ended(busy).at_ns > busy.started_ns
    status = end(agent, start(agent, "/bin/sh", "-c", "kill -KILL $$"))
    assert (status.exit_code, status.signal) == (None, signal.SIGKILL)


def test_a_program_that_is_not_there(agent: AgentLink) -> None:
    with pytest.raises(RefusedError, match="cannot start /no/such: No such file") as caught:
        start(agent, "/no/such")
    assert caught.value.kind == "not-found"
    with pytest.raises(RefusedError, match="Permission denied") as caught:
        start(agent, "/etc/passwd")
    assert caught.value.kind == "denied"
    with pytest.raises(RefusedError, match="no process 999999"):
        wait(agent, 999999)


def test_run_ends_a_command_with_its_children_when_the_time_is_up(
    agent: AgentLink, has_ended: Callable[[int], bool]
) -> None:
    line = "trap '' TERM; echo $$; sleep 60 & wait; sleep 60"
    times = (run(agent, "/bin/sh", "-c", line, timeout_s=timeout_s) for timeout_s in (0.5, 2, 8, 20))
    completed = next(each for each in times if each.body)  # a busy machine may not start it in time
    assert completed.timed_out
    assert has_ended(int(completed.body))


def test_output_goes_to_files_up_to_a_ceiling(agent: AgentLink, workdir: Path) -> None:
    out, err = ops.ToFile("out/a", 1000), ops.ToFile("out/b", None)
    process = start(agent, "/bin/sh", "-c", "head -c 5000 /dev/zero; echo oops >&2", stdout=out, stderr=err)
    outputs = wait(agent, process.id).outputs
    assert outputs == {"stdout": ops.OutputSize(1000, 4000, None)}
    assert (workdir / "out/a").stat().st_size == 1000
    assert (workdir / "out/b").read_bytes() == b"oops\n"
    assert (workdir / "out/a").stat().st_mode & 0o777 == 0o600


def test_environment_and_folder(agent: AgentLink, workdir: Path) -> None:
    (workdir / "in").mkdir(exist_ok=True)
    process = start(
        agent,
        *("/bin/sh", "-c", 'echo "$A,${HOME-none}"; pwd'),
        env={"A": "$x; `y`", "HOME": None},
        cwd="in",
        stdout=ops.ToFile("in/out", 1000),
    )
    wait(agent, process.id)
    assert (workdir / "in/out").read_text() == f"$x; `y`,none\n{workdir}/in\n"


def test_cpus_are_those_asked_for_and_the_agents_stay_as_they_are(agent: AgentLink) -> None:
    mine = sorted(os.sched_getaffinity(0))
    code = "import os; print(sorted(os.sched_getaffinity(0)))"
    before = run(agent, sys.executable, "-c", code).body
    for cpu in mine:
        process = start(agent, sys.executable, "-c", code, cpus=[cpu], stdout=ops.ToFile("cpus", 99))
        wait(agent, process.id)
        assert agent.call(FileStore.read, "cpus", 0, 99).body == f"[{cpu}]\n".encode()
    assert run(agent, sys.executable, "-c", code).body == before == f"{mine}\n".encode()
    with pytest.raises(RefusedError, match=rf"CPUs \[4095\]: this host has \[{mine[0]}"):
        start(agent, "true", cpus=[4095])


def test_open_files_are_limited_for_the_process_only(agent: AgentLink) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    process = start(agent, "/bin/sh", "-c", "ulimit -Sn; ulimit -Hn", nofile=300, stdout=ops.ToFile("n", 99))
    wait(agent, process.id)
    assert agent.call(FileStore.read, "n", 0, 99).body == f"300\n{hard}\n".encode()
    assert run(agent, "/bin/sh", "-c", "ulimit -Sn").body == f"{soft}\n".encode()
    with pytest.raises(RefusedError, match="the agent needs"):
        start(agent, "true", nofile=10)
    with pytest.raises(RefusedError, match=f"the hard limit is {hard}"):
        start(agent, "true", nofile=1 << 30)


def test_stopping_takes_descendants_too(agent: AgentLink, has_ended: Callable[[int], bool]) -> None:
    process = start(agent, "/bin/sh", "-c", "sleep 61 & sleep 62 & wait")
    wait_until(lambda: len(members(agent, process)) == 2)
    tree = members(agent, process)
    answer = stop(agent, process)
    assert (answer.killed, answer.survivors) == ([], [])
    assert ended(answer.processes[0]).signal == signal.SIGTERM
    assert all(has_ended(pid) for pid in tree.values())
    assert members(agent, process) == {}
    assert stop(agent, process).survivors == [], "once more is fine"


def test_what_ignores_the_signal_is_killed_after_the_grace(agent: AgentLink) -> None:
    process = start(agent, "/bin/sh", "-c", "trap '' TERM; sleep 60; sleep 60", stdout=ops.ToFile("t", 9))
    wait_until(lambda: "sleep" in members(agent, process))
    began = time.monotonic()
    answer = stop(agent, process, grace_s=0.3)
    assert time.monotonic() - began > 0.25
    assert "sh" in [each.name for each in answer.killed]
    assert ended(answer.processes[0]).signal == signal.SIGKILL


DAEMON = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.environ.clear()
        time.sleep(60)
    os._exit(0)
os.wait()
time.sleep(60)
"""


def test_a_daemon_that_left_its_session_is_still_ours(agent: AgentLink, has_ended: Callable[[int], bool]) -> None:
    process = start(agent, sys.executable, "-c", DAEMON)
    deadline = time.monotonic() + 50
    while time.monotonic() < deadline:
        pids = [member.pid for member in agent.call(ProcessTable.members, process.id)]
        if len(pids) == 2:
            break
    else:
        pytest.fail(f"the daemon was not seen: {pids}")
    assert stop(agent, process).survivors == []
    assert all(has_ended(pid) for pid in pids)


def test_cpu_time_counts_what_ended_too(agent: AgentLink) -> None:
    spin = f"{sys.executable} -c 'import time\nwhile time.process_time() < 0.1: pass'"
    process = start(agent, "/bin/sh", "-c", f"{spin}; {spin} & wait; sleep 60")
    wait_until(lambda: "sleep" in members(agent, process))
    used = agent.call(ProcessTable.cpu_times, [process.id])[process.id]
    assert used.total_s > 0.15, "both, counted in ticks of at most 10 ms"
    stop(agent, process)
    after = agent.call(ProcessTable.cpu_times, [process.id])[process.id]
    assert after.user_s >= used.user_s - 0.02, "what was counted in ticks comes back exact"
