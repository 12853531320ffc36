"""Configurations that nginx itself accepts."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path, PurePosixPath

import pytest

from benchkit.models.protocol import Protocol
from benchkit.services.service import Service
from tests.support.services.placements import config_text
from tests.unit.services.test_nginx import PLACE, render

PURPOSES = {
    "http": "upstream: app",
    "fastcgi": "upstream: app",
    "files": "file_bytes: 1600",
    "gif": "empty_gif: true",
    "http with every role": "upstream: [app, app]\nvirtual_hosts: {two.example: app}\nfile_bytes: 16\ncache_s: 60\ngzip: true",
    "status": "status: true",
}


pytestmark = pytest.mark.skipif(
    shutil.which("nginx", path="/usr/sbin:/usr/bin") is None, reason="nginx is not installed"
)


def require_accepted(service: Service) -> None:
    """Place the configuration of a service in its folder, and have nginx test it."""
    Path(service.folder, "nginx.conf").write_text(config_text(service))
    argv = service.config_tests[0].argv
    check = subprocess.run(argv, cwd=service.folder, capture_output=True, text=True, check=False)
    assert (check.returncode, check.stderr) == (0, "")


@pytest.mark.parametrize("purpose", PURPOSES)
@pytest.mark.parametrize("more", ["", "reuseport: true\nbacklog: 99\naccept_mutex: true\nopen_file_cache: 0"])
def test_nginx_accepts_the_configuration_of_every_purpose(tmp_path: Path, purpose: str, more: str) -> None:
    protocol: Protocol = "fastcgi" if purpose == "fastcgi" else "http1"
    root = os.geteuid() == 0  # nginx warns of a user that it cannot switch to
    place = replace(PLACE, folder=PurePosixPath(tmp_path), root=root)
    service = render(f"{PURPOSES[purpose]}\n{more}", place=place, protocol=protocol)
    require_accepted(service)
