from __future__ import annotations

from pathlib import Path

from benchkit.plugins.go_modules.git_server import SshKeyFile
from benchkit.services.service import Service


def test_each_reader_has_a_key_restricted_to_the_read_script(service: Service) -> None:
    folder = Path(service.folder)
    lines = {reader: (folder / f"reader_{reader}.pub").read_text() for reader in ("proxy", "developers")}
    assert lines["proxy"].split()[-1] != lines["developers"].split()[-1]
    for line in lines.values():
        assert line.startswith(f'command="{folder}/read.sh",restrict ssh-ed25519 ')
    config = (folder / "sshd_config").read_text()
    assert f'AuthorizedKeysFile "{folder}/reader_proxy.pub" "{folder}/reader_developers.pub"' in config
    assert "AllowUsers bench\n" in config
    assert "PermitRootLogin no" in config
    assert "PerSourcePenalties" not in config  # OpenSSH before 9.8 would not start with it
    assert (folder / "host_key").stat().st_mode & 0o777 == 0o600


def test_a_key_is_created_once_and_not_part_of_repr(state: Path) -> None:
    key = SshKeyFile("host vcs", "private")
    assert key.read() == key.read() == SshKeyFile("host vcs", "private").read()
    assert key.read() != SshKeyFile("host other", "private").read()
    assert b"PRIVATE" in key.read()
    assert "PRIVATE" not in repr(key)
    folder_of_secrets = state / "benchkit" / "kept"
    assert folder_of_secrets.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in folder_of_secrets.iterdir()} == {0o600}
