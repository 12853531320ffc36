"""Marks of tests that not every machine or user can run."""

from __future__ import annotations

import os

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
