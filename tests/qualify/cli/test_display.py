"""The display of a real run in a terminal of 80 columns."""

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
    assert output.endswith(b"\n")
    assert output.count(b"\x1b[?25l") == output.count(b"\x1b[?25h") > 0, "the cursor is shown again"
