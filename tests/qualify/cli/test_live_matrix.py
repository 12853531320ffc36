"""The live display of a run: on values, and of a real run in a terminal of 80 columns."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import sys
import termios
from pathlib import Path

from benchkit.lab.lab import Lab

BENCHKIT = str(Path(sys.executable).with_name("benchkit"))
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


def test_a_run_fills_the_terminal_and_leaves_it_as_it_was(lab: Lab, tmp_path: Path) -> None:
    environment = {**os.environ, "BENCHKIT_LAB": lab.name, "TERM": "xterm-256color"}
    command = [BENCHKIT, "run", "quickstart", "--scale", "smoke", "--store", str(tmp_path), "--set", "blocks=1"]
    command += ["--set", "factors.stack=[go]", "--set", "baseline=null", "--set", "claims=[]"]
    command += ["--set", "load.duration_s=5"]  # several samples of one trial
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(BENCHKIT, command, environment)  # noqa: S606 - the terminal's own process
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    output = b""
    try:
        while piece := os.read(terminal, 1 << 16):
            output += piece
    except OSError:  # how a terminal says that nobody is left to write to it
        pass
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 0, output.decode()
    text = ESCAPES.sub("", output.decode()).replace("\r", "\n")
    assert "quickstart  1/1 trials" in text
    assert re.search(r"server \d+\.\d\d CPUs", text)
    loaded = re.search(r"generator \d+\.\d\d CPUs, [1-9][0-9,]* requests/s", text)
    assert loaded
    # After the load the rate is 0 until its outputs are fetched, which takes seconds on a busy machine.
    assert not re.search(r"\b0 requests/s", text[: loaded.start()]), "a trial whose load has not begun has no rate"
    assert output.endswith(b"\n")
    assert output.count(b"\x1b[?25l") == output.count(b"\x1b[?25h") > 0, "the cursor is shown again"
