from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from benchkit.errors import HostError, InputError
from benchkit.lab.openssh import client_config, known_hosts_line, make_keys, public_key, server_config
from benchkit.lab.programs import find_programs


def test_known_hosts_puts_an_unusual_port_in_brackets() -> None:
    assert known_hosts_line("192.0.2.1", 22, "ssh-ed25519 AAAA") == "192.0.2.1 ssh-ed25519 AAAA\n"
    assert known_hosts_line("127.0.0.2", 2022, "ssh-ed25519 AAAA") == "[127.0.0.2]:2022 ssh-ed25519 AAAA\n"


def test_penalties_are_turned_off_only_in_versions_that_have_them() -> None:
    def config(version: tuple[int, int]) -> str:
        path = Path("/x y")
        return server_config(
            version=version,
            listen=("192.0.2.1", 22),
            host_key=path / "key",
            authorized_keys=path / "100%",
            root=True,
            environment={"A": "b", "PATH": "/a b:/c"},
        )

    assert "PerSourcePenalties" not in config((9, 7))
    assert "PerSourcePenalties no\n" in config((9, 8))
    assert "PerSourcePenalties no\n" in config((10, 0))
    assert 'HostKey "/x y/key"\n' in config((9, 2))
    assert 'AuthorizedKeysFile "/x y/100%%"\n' in config((9, 2))
    assert "PasswordAuthentication no\n" in config((9, 2))
    assert 'SetEnv "A=b" "PATH=/a b:/c"\n' in config((9, 2))


@pytest.mark.lab
def test_the_real_programs_accept_keys_and_configuration(tmp_path: Path) -> None:
    found = find_programs(["ssh-keygen", "ssh"])
    folder = tmp_path / "a folder"
    folder.mkdir()
    make_keys(found["ssh-keygen"], [folder / "host", folder / "client"])
    assert public_key(folder / "host").startswith("ssh-ed25519 AAAA")
    assert public_key(folder / "host") != public_key(folder / "client")
    client = folder / "ssh_config"
    client.write_text(
        client_config([("sut", "127.0.0.1", 2022)], user="me", identity=folder / "client", known_hosts=folder / "known")
    )
    shown = subprocess.run([found["ssh"], "-G", "-F", str(client), "sut"], capture_output=True, text=True, check=True)
    assert f"identityfile {folder / 'client'}" in shown.stdout
    assert f"userknownhostsfile {folder / 'known'}" in shown.stdout
    assert "stricthostkeychecking true" in shown.stdout
    assert "port 2022" in shown.stdout


@pytest.mark.lab
def test_a_key_that_cannot_be_created_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="cannot create a key"):
        make_keys(find_programs(["ssh-keygen"])["ssh-keygen"], [tmp_path / "absent" / "key"])


def test_all_missing_programs_are_named() -> None:
    with pytest.raises(InputError, match=r"missing on this machine: no-such-a, no-such-b\n.*benchkit lab prepare"):
        find_programs(["sh", "no-such-a", "no-such-b"])
