"""Parts of a lab on this machine: its network, its control groups, its keys."""

from __future__ import annotations

import secrets
import subprocess
from ipaddress import IPv4Network
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchkit.errors import HostError
from benchkit.lab.cgroups import create, lab_folders, remove, usable_hierarchies
from benchkit.lab.namespaces import choose_subnet
from benchkit.lab.openssh import client_config, make_keys, public_key
from benchkit.lab.processes import find_programs

POOL = list(IPv4Network("198.18.0.0/15").subnets(new_prefix=24))


@given(st.lists(st.sampled_from(POOL), max_size=40), st.integers(0, 2**32))
def test_the_network_never_overlaps(used: list[IPv4Network], seed: int) -> None:
    assert not any(choose_subnet(used, seed).overlaps(network) for network in used)


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


def test_a_key_that_cannot_be_created_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="cannot create a key"):
        make_keys(find_programs(["ssh-keygen"])["ssh-keygen"], [tmp_path / "absent" / "key"])
