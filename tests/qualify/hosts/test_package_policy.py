"""Installation of packages by a real shell: the policy against daemons, and the line for users."""

from __future__ import annotations

import subprocess
from pathlib import Path

from benchkit.hosts.install import InstallStep, PackageState, install_steps, shell_line
from tests.unit.hosts.test_install import POLICY


def test_the_policy_forbids_while_it_is_young(tmp_path: Path) -> None:
    text = install_steps(PackageState("apt", "root"), ["nginx"])[0].stdin
    assert text is not None
    policy = tmp_path / "policy-rc.d"
    policy.write_text(text.replace(POLICY, str(policy)))
    policy.chmod(0o755)
    ask = [str(policy), "nginx", "start"]
    assert subprocess.run(ask, check=False).returncode == 101
    subprocess.run(["touch", "-t", "202001010000", str(policy)], check=True)
    assert subprocess.run(ask, check=False).returncode == 0


def test_a_line_clears_up_after_a_failure_and_skips_the_rest(tmp_path: Path) -> None:
    policy, never = tmp_path / "po'licy", tmp_path / "never"
    steps = (
        InstallStep(("tee", str(policy)), stdin='#!/bin/sh\necho "$0 100%" \\n\n'),
        InstallStep(("cmp", str(policy), "/dev/null")),
        InstallStep(("touch", str(never))),
        InstallStep(("rm", str(policy)), always=True),
    )
    shown = subprocess.run(["sh", "-c", shell_line(steps, sudo=False)], capture_output=True, text=True, check=False)
    assert shown.stdout.startswith('#!/bin/sh\necho "$0 100%" \\n\n')
    assert not policy.exists()
    assert not never.exists()
