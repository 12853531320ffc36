"""Marks of tests that not every machine or user can run."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

separate_hosts = pytest.mark.skipif(
    os.geteuid() != 0,
    reason="needs root: without it the hosts of a lab are one machine, with the same ports, processes, names and lock",
)
"""Mark of tests that need a lab whose hosts have their own namespaces."""

kernel_settings = pytest.mark.skipif(
    os.geteuid() != 0, reason="needs root: without it no settings of the kernel are applied and restored"
)
"""Mark of tests of hosts that are tuned."""

one_machine = pytest.mark.skipif(os.geteuid() == 0, reason="without root only: hosts of root's labs are separate")
"""Mark of tests of what hosts that are one machine do otherwise."""

shared_environment = pytest.mark.skipif(
    any(Path(sys.prefix).is_relative_to(folder) for folder in ("/tmp", "/var/tmp", "/dev/shm")),  # noqa: S108 - only read
    reason="needs a checkout elsewhere: hosts of a lab have such a folder for themselves, and cannot use its Python",
)
"""Mark of tests in which lab hosts run the Python of this environment."""

containers = pytest.mark.skipif(
    os.geteuid() != 0 or not all(map(shutil.which, ("podman", "runc", "iptables", "go"))),
    reason="needs root, and podman with runc, iptables and Go (`benchkit lab prepare podman runc netavark iptables go`)",
)
"""Mark of tests whose images podman builds here."""

docker = pytest.mark.skipif(
    not all(map(shutil.which, ("docker", "dockerd", "containerd"))),
    reason="needs the daemon of docker (Debian: `apt install docker.io`, which starts one here; the tests need none)",
)
"""Mark of tests with a daemon of docker on a lab host."""

database = pytest.mark.skipif(
    os.geteuid() != 0
    or not (shutil.which("postgres") or list(Path("/usr/lib/postgresql").glob("*/bin/postgres")))
    or shutil.which("go") is None,
    reason="needs root, PostgreSQL (`apt install postgresql`) and Go",
)
"""Mark of tests with a PostgreSQL, which runs as the user of its package."""
