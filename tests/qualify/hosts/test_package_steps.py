from __future__ import annotations

import subprocess

from hypothesis import given
from hypothesis import strategies as st

from benchkit.hosts.install import InstallStep, shell_line


@given(text=st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0\r"), max_size=40))
def test_what_a_step_reads_survives_the_shell(text: str) -> None:
    steps = (InstallStep(("cat",), stdin=text), InstallStep(("true",)))
    printed = subprocess.run(["sh", "-c", shell_line(steps, sudo=False)], capture_output=True, check=True)
    assert printed.stdout.decode() == text
