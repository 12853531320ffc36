from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

BENCHKIT = Path(sys.executable).with_name("benchkit")


def prepare(path: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run `benchkit lab prepare` without a terminal, on a machine whose programs are those in `path`."""
    return subprocess.run(
        [sys.executable, BENCHKIT, "lab", "prepare", *options],
        env=os.environ | {"PATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """Folder of programs; whatever is not in it, nor in a folder of daemons, is missing."""
    folder = tmp_path / "tools"
    folder.mkdir()
    return folder


def test_prepare_without_apt_names_home_pages(tools: Path) -> None:
    ended = prepare(str(tools))
    assert ended.returncode == 2
    assert ended.stdout == ""
    assert "missing on this machine" in ended.stderr
    assert "benchkit installs with apt only" in ended.stderr
    assert "wrk (https://github.com/wg/wrk)" in ended.stderr


@pytest.mark.skipif(shutil.which("apt-get") is None, reason="a machine with apt")
def test_prepare_without_a_terminal_prints_one_line_and_installs_nothing(tools: Path) -> None:
    for tool in ("apt-get", "test", "grep", "dpkg"):
        (tools / tool).symlink_to(str(shutil.which(tool)))
    ended = prepare(str(tools))
    assert ended.returncode == 2
    (line,) = (line for line in ended.stderr.splitlines() if "apt-get install" in line)
    assert " wrk apache2-utils hey nghttp2-client siege util-linux git openssh-client" in line
    assert ("no terminal to ask on" in ended.stderr) is (os.geteuid() == 0)


def test_prepare_without_missing_programs_does_nothing() -> None:
    assert prepare(os.environ["PATH"]).stderr == "System packages: nothing to install.\n"
    quiet = prepare(os.environ["PATH"], "--quiet")
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (0, "", "")


def test_more_programs_are_requested_by_name(tools: Path) -> None:
    ended = prepare(str(tools), "chromium")
    assert ended.returncode == 2
    assert "chromium (https://www.chromium.org)" in ended.stderr
    assert "chromium" not in prepare(str(tools)).stderr
    unknown = prepare(str(tools), "chromum")
    assert unknown.returncode == 2
    assert "no package is known for 'chromum'" in unknown.stderr
    assert "chromium" in unknown.stderr
