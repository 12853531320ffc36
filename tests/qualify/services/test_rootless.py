"""An engine of an ordinary user on a lab host: used where it can be, else `hosts check` names what is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchkit.hosts.connections import connect
from benchkit.hosts.host import Host
from benchkit.lab.lab import down, up
from benchkit.lab.spec import LabSpec
from benchkit.services.container_engine import engine_notes
from tests.support.needs import containers

pytestmark = containers

MAKE_USER = """
set -e
cd /run/benchkit-lab
chmod 711 .; chmod 644 authorized_keys containers.conf
sed -i '/^network_config_dir/d' containers.conf
mkdir /run/home; chown 54321:54321 /run/home
{ cat /etc/passwd; echo bench:x:54321:54321::/run/home:/bin/sh; } >passwd; chmod 644 passwd
{ cat /etc/shadow; echo 'bench:*:19000:0:99999:7:::'; } >shadow; chmod 640 shadow
mount --bind passwd /etc/passwd; mount --bind shadow /etc/shadow
"""
"""An ordinary user `bench` in the lab host's own /etc, who may log in with the key of the lab."""


@pytest.fixture
def bench() -> Iterator[Host]:
    """The host `sut` as `bench` sees it."""
    lab = up(LabSpec(name=f"pytest-rootless-{os.getpid()}"), temporary=True)
    try:
        subprocess.run([*lab.ssh_command("sut"), "sh"], input=MAKE_USER, text=True, check=True)
        spec = next(each for each in lab.inventory().hosts if each.name == "sut")
        with connect(spec.model_copy(update={"user": "bench", "workdir": None})) as host:
            yield host
    finally:
        down(lab.name)


def test_what_an_engine_without_root_lacks_is_named(bench: Host) -> None:
    assert (bench.facts.user, bench.facts.root) == ("bench", False)
    (note,) = (each for each in engine_notes(bench) if "podman" in each)
    assert "podman cannot limit and count containers without root" in note
    has_version_2 = Path("/sys/fs/cgroup/cgroup.controllers").exists()
    assert ("delegates no cpu, cpuset" if has_version_2 else "control groups have version 1") in note
    assert "/etc/subuid has no line for bench" in note
    for program in ("newuidmap", "slirp4netns"):
        assert (f"{program} is missing (package" in note) is (shutil.which(program, path="/usr/bin:/bin") is None)
