from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from benchkit.errors import HostError
from benchkit.lab.openssh import client_config, make_keys, public_key
from benchkit.lab.processes import find_programs


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


def test_a_key_that_cannot_be_created_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="cannot create a key"):
        make_keys(find_programs(["ssh-keygen"])["ssh-keygen"], [tmp_path / "absent" / "key"])
