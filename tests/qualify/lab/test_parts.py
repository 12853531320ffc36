"""Parts of a lab on this machine: its network, its control groups, its keys."""

from __future__ import annotations

import secrets
import subprocess
from pathlib import Path

import pytest

from benchkit.lab.cgroups import create, lab_folders, remove, usable_hierarchies
from benchkit.lab.openssh import client_config, make_keys, public_key
from benchkit.lab.processes import find_programs


def test_groups_are_created_and_removed() -> None:
    trees = usable_hierarchies()
    if not trees:
        pytest.skip("this process may make no control groups here")
    key = secrets.token_hex(4)
    groups = [Path(part["source"]) for host in ("a", "b") for part in create(trees, key, host)]
    try:
        assert all((group / "cgroup.procs").is_file() for group in groups)
    finally:
        remove(lab_folders(trees, key))
    assert not any(group.parent.exists() for group in groups)
    remove(lab_folders(trees, key))  # does nothing where there are none


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
