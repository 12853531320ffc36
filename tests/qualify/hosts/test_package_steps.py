from __future__ import annotations

import subprocess

from hypothesis import given
from hypothesis import strategies as st

from benchkit.hosts.package_steps import shell_line
from benchkit.hosts.steps import Step


@given(text=st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0\r"), max_size=40))
def test_what_a_step_reads_survives_the_shell(text: str) -> None:
    steps = (Step(("cat",), stdin=text), Step(("true",)))
    printed = subprocess.run(["sh", "-c", shell_line(steps, sudo=False)], capture_output=True, check=True)
    assert printed.stdout.decode() == text
