from __future__ import annotations

import os
import subprocess
from pathlib import Path, PurePosixPath

import pytest

from benchkit.plugins.go_modules.git_server import git_reader
from benchkit.services.service import Service
from tests.support.plugins.go_modules.git_server import SERVER, write_file


def create_repositories(service: Service) -> None:
    done = subprocess.run(service.setup_commands[0].argv, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def run_read_script(service: Service, command: str | None) -> subprocess.CompletedProcess[bytes]:
    environment = {"PATH": os.environ["PATH"]} | ({} if command is None else {"SSH_ORIGINAL_COMMAND": command})
    script = Path(service.folder) / "read.sh"
    return subprocess.run(["/bin/sh", script], env=environment, input=b"0000", capture_output=True, check=False)


@pytest.mark.parametrize(
    ("name", "tags"),
    [("/module1", 2), ("module1", 2), ("/module1.git", 2), ("/new-1", 1), ("/new-whatever.7", 1), ("/new-old", 1)],
)
def test_repositories_are_read(service: Service, name: str, tags: int) -> None:
    create_repositories(service)
    done = run_read_script(service, f"git-upload-pack '{name}'")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(b"refs/tags/") == tags


def test_repositories_are_created_once(service: Service, tmp_path: Path) -> None:
    create_repositories(service)
    folder_of_secrets = tmp_path / "stack" / "repositories"
    before = {path: path.stat().st_mtime_ns for path in folder_of_secrets.rglob("*")}
    create_repositories(service)
    assert {path: path.stat().st_mtime_ns for path in folder_of_secrets.rglob("*")} == before
    assert len(list(folder_of_secrets.iterdir())) == 3


@pytest.mark.parametrize(
    "command",
    [
        None, "", "sh", "git-receive-pack '/module1'", "git-upload-archive '/module1'", "git-upload-pack", "git-upload-pack ''",
        "git-upload-pack '/'", "git-upload-pack '/module2'", "git-upload-pack '/../module1'", "git-upload-pack '/module1/..'",
        "git-upload-pack '/module1'; id", "git-upload-pack '/module1' --x", "git-upload-pack '/$(id)'", "git-upload-pack '/*'",
        "git-upload-pack '/m?dule1'", "git-upload-pack '/new-'\\''x'", "git-upload-pack '/module1\n/etc'", "git-upload-pack '-x'",
    ],
)  # fmt: skip
def test_all_other_commands_are_rejected(service: Service, command: str | None) -> None:
    create_repositories(service)
    done = run_read_script(service, command)
    assert done.returncode == 1
    assert done.stdout == b""
    assert done.stderr.startswith((b"this server only lets you read repositories", b"no such repository: "))


def test_openssh_accepts_keys_and_configuration(service: Service, tmp_path: Path) -> None:
    folder = Path(service.folder)
    output = subprocess.run(["ssh-keygen", "-y", "-f", folder / "host_key"], capture_output=True, text=True, check=True)
    files, ssh_command = git_reader(SERVER, "proxy", PurePosixPath(tmp_path / "reader"))
    for file in files:
        write_file(file)
    known = (tmp_path / "reader" / "ssh_known_hosts").read_text()
    assert known == f"[10.0.0.1]:2222 {' '.join(output.stdout.split()[:2])}\n"
    output = subprocess.run(
        ["ssh", "-G", "-F", tmp_path / "reader" / "ssh_config", "x"], capture_output=True, text=True, check=True
    )
    assert "stricthostkeychecking true" in output.stdout
    assert ssh_command == f"ssh -F {tmp_path}/reader/ssh_config"
