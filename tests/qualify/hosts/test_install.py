"""The command that installs packages, and its script for apt with an apt-get that only logs."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from benchkit.errors import HostError
from benchkit.hosts.packages import install_command, install_here, shell_line

APT_GET = '#!/bin/sh\necho "$*" >> FOLDER/called\ncat FOLDER/policy-rc.d >> FOLDER/seen\ntest -e FOLDER/lists\n'


def test_a_line_for_a_shell_asks_sudo_once() -> None:
    line = shell_line(install_command(["nginx"]), sudo=True)
    assert line.startswith("sudo sh -c '")
    assert line.count("sudo") == 1
    assert "\n" not in line


def run_apt(folder: Path, *packages: str) -> tuple[int, list[str]]:
    """Run the script for apt with an apt-get and a policy in a folder; return exit code and calls."""
    (folder / "apt-get").write_text(APT_GET.replace("FOLDER", str(folder)))
    (folder / "systemctl").write_text(f'#!/bin/sh\necho "systemctl $*" >> {folder}/called\n')
    for name in ("apt-get", "systemctl"):
        (folder / name).chmod(0o755)
    _, _, script = install_command(packages)
    script = script.replace("/usr/sbin/policy-rc.d", str(folder / "policy-rc.d")).replace("/lib/systemd", str(folder))
    path = f"{folder}:/usr/bin:/bin"
    done = subprocess.run(["sh", "-c", script], env={"PATH": path}, capture_output=True, check=False)
    return done.returncode, (folder / "called").read_text().splitlines()


def test_daemons_are_kept_from_starting_now_and_at_the_next_boot(tmp_path: Path) -> None:
    (tmp_path / "lists").touch()
    code, calls = run_apt(tmp_path, "nginx", "wrk")
    assert code == 0
    assert calls[0].startswith("install --yes --no-install-recommends")
    assert calls[0].endswith("nginx wrk")
    assert calls[1:] == ["systemctl disable  nginx.service"] or calls[1:] == ["systemctl disable nginx.service"]
    assert "exit 101" in (tmp_path / "seen").read_text()
    assert not (tmp_path / "policy-rc.d").exists()


def test_a_daemon_and_a_policy_of_the_host_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "lists").touch()
    (tmp_path / "system").mkdir()
    (tmp_path / "system/nginx.service").touch()
    (tmp_path / "policy-rc.d").write_text("its own")
    _, calls = run_apt(tmp_path, "nginx")
    assert len(calls) == 1
    assert (tmp_path / "policy-rc.d").read_text() == "its own"


def test_lists_are_updated_where_the_installation_fails(tmp_path: Path) -> None:
    code, calls = run_apt(tmp_path, "wrk")
    assert code != 0
    assert [call.split()[0] for call in calls] == ["install", "update"]


def test_a_failed_installation_is_an_error() -> None:
    with pytest.raises(HostError, match="the packages could not be installed: exit code 3"):
        install_here(("sh", "-c", "exit 3"), sudo=False)
