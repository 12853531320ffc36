"""A rendered stack whose configuration nginx itself accepts."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path, PurePosixPath

from benchkit.services.placement import ServicePlacement
from benchkit.services.rendering import ServiceSpec, render_services
from tests.unit.services.test_rendering import config_text, place, read_services


def test_nginx_accepts_the_rendered_configuration(tmp_path: Path) -> None:
    def place_here(service: ServiceSpec) -> ServicePlacement:
        folder = tmp_path / service.name
        folder.mkdir(exist_ok=True)
        here = place(service, root=os.geteuid() == 0)  # nginx warns of a user that it cannot switch to
        return replace(here, address="127.0.0.1", folder=PurePosixPath(folder))

    _, front = render_services(read_services(tmp_path), place_here)
    (tmp_path / "front" / "nginx.conf").write_text(config_text(front))
    check = subprocess.run(front.config_tests[0].argv, cwd=front.folder, capture_output=True, text=True, check=False)
    assert (check.returncode, check.stderr) == (0, "")
