"""Installation steps run on this machine: their order, clean-up and interruption, and the line for a shell."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchkit.errors import HostError
from benchkit.hosts.install import InstallStep, LocalRunner, StepOutcome, run_steps, shell_line

RUNNER = LocalRunner()


def touch(path: Path) -> tuple[str, ...]:
    return ("touch", str(path))


def test_steps_are_carried_out_in_order(tmp_path: Path) -> None:
    file = tmp_path / "file"
    run_steps([InstallStep(("tee", str(file)), stdin="text\n"), InstallStep(("cp", str(file), f"{file}.copy"))], RUNNER)
    assert Path(f"{file}.copy").read_text() == "text\n"


def test_after_a_failure_only_the_clearing_up_is_done(tmp_path: Path) -> None:
    steps = [
        InstallStep(touch(tmp_path / "before")),
        InstallStep(("false",)),
        InstallStep(touch(tmp_path / "after")),
        InstallStep(touch(tmp_path / "cleared"), always=True),
    ]
    with pytest.raises(HostError, match=r"`false` failed: exit code 1") as caught:
        run_steps(steps, RUNNER, where="host a")
    assert caught.value.where == "host a"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["before", "cleared"]


def test_clean_up_commands_that_fail_are_reported(tmp_path: Path) -> None:
    steps = [
        InstallStep(("false",)),
        InstallStep(("rm", str(tmp_path / "none")), always=True),
        InstallStep(touch(tmp_path / "x"), always=True),
    ]
    with pytest.raises(HostError, match=r"`false` failed") as caught:
        run_steps(steps, RUNNER)
    assert caught.value.hint == f"run this by hand: rm {tmp_path / 'none'}"
    assert (tmp_path / "x").exists()


def test_a_step_is_tried_once_more_after_what_may_mend_it(tmp_path: Path) -> None:
    file = tmp_path / "list"
    run_steps([InstallStep(("cat", str(file)), retry_after=touch(file))], RUNNER)
    with pytest.raises(HostError, match="failed"):
        run_steps([InstallStep(("cat", str(tmp_path / "other")), retry_after=("true",))], RUNNER)


def test_a_command_that_does_not_exist_is_a_failure_with_its_name() -> None:
    assert RUNNER.run(("benchkit-has-no-such-command",)) == StepOutcome(127, "benchkit-has-no-such-command: not found")
    with pytest.raises(HostError, match=r"benchkit-has-no-such-command: not found \(exit code 127\)"):
        run_steps([InstallStep(("benchkit-has-no-such-command",))], RUNNER)


def test_a_folder_with_the_name_of_a_missing_command_is_no_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Name the missing command although the kernel denies to run what is found, as in a folder of another user."""
    (tmp_path / "benchkit-command").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert RUNNER.run(("benchkit-command",)) == StepOutcome(127, "benchkit-command: not found")


def test_a_command_ended_by_a_signal_is_a_failure() -> None:
    killed = (sys.executable, "-c", "import os; os.kill(os.getpid(), 9)")
    with pytest.raises(HostError, match="signal 9"):
        run_steps([InstallStep(killed)], RUNNER)


def test_what_commands_print_leaves_stdout_alone(capfd: pytest.CaptureFixture[str]) -> None:
    RUNNER.run(("echo", "shown"))
    RUNNER.run(("echo", "asked"), shown=False)
    assert capfd.readouterr() == ("", "shown\n")


_INTERRUPTED = """
import sys
from benchkit.hosts.install import InstallStep
from benchkit.hosts.install import LocalRunner, run_steps
policy, started, go, finished, never = sys.argv[1:]
package_manager = '''
import pathlib, sys, time
started, go, finished = map(pathlib.Path, sys.argv[1:])
started.touch()
for _ in range(2000):
    if go.exists():
        finished.touch()
        break
    time.sleep(0.01)
'''
run_steps(
    [
        InstallStep(("tee", policy), stdin="exit 101"),
        InstallStep((sys.executable, "-c", package_manager, started, go, finished)),
        InstallStep(("touch", never)),
        InstallStep(("rm", policy), always=True),
    ],
    LocalRunner(),
)
"""


def test_an_interrupt_lets_the_package_manager_end_and_runs_the_clean_up(tmp_path: Path) -> None:
    policy, started, go, finished, never = (
        tmp_path / name for name in ("policy", "started", "go", "finished", "never")
    )
    process = subprocess.Popen(
        [sys.executable, "-c", _INTERRUPTED, *map(str, (policy, started, go, finished, never))], stderr=subprocess.PIPE
    )
    deadline = time.monotonic() + 60
    while not started.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert policy.exists()
    process.send_signal(signal.SIGINT)  # to the controller only; a second one has no effect
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    go.touch()
    _, shown = process.communicate(timeout=60)
    assert b"KeyboardInterrupt" in shown
    assert finished.exists()
    assert not policy.exists()
    assert not never.exists()


@given(text=st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0\r"), max_size=40))
def test_what_a_step_reads_survives_the_shell(text: str) -> None:
    steps = (InstallStep(("cat",), stdin=text), InstallStep(("true",)))
    printed = subprocess.run(["sh", "-c", shell_line(steps, sudo=False)], capture_output=True, check=True)
    assert printed.stdout.decode() == text
