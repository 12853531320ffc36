"""A place on a host that is not there, to render services for, and the text of what was rendered."""

from __future__ import annotations

from pathlib import PurePosixPath

from benchkit.services.placement import HostProgram, ServicePlacement
from benchkit.services.service import Service

NGINX = HostProgram("/usr/sbin/nginx", (1, 22, 1), "nginx version: nginx/1.22.1")
NODE = HostProgram("/usr/bin/node", (20, 20, 2))

PLACE = ServicePlacement(
    host="sut",
    address="10.0.0.1",
    cpus=(0, 1),
    folder=PurePosixPath("/w"),
    user="bench",
    root=False,
    goos="linux",
    goarch="amd64",
    nofile=20000,
    programs={},
)
"""Place of an ordinary user on a Linux host with two CPUs."""


def config_text(service: Service) -> str:
    """Return the text of the first file of a service."""
    content = service.files[0].content
    assert isinstance(content, bytes)
    return content.decode()
