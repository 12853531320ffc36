"""Parts of a lab on this machine: its network, its control groups, its keys."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest

from benchkit.lab.cgroups import create, lab_folders, remove, usable_hierarchies


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
