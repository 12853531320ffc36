"""Images of a static server, built FROM scratch, and what an engine has left on a lab host."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from benchkit.lab.lab import Lab
from tests.support.paths import TESTS

SOURCES = TESTS / "support/containers"

ENGINE_STATE = """
podman ps -aq; podman network ls -q; podman volume ls -q; podman images -q
grep -v netns /proc/mounts
iptables-save -t nat | grep -v '^[#:]'; iptables-save -t filter | grep -v '^[#:]'
iptables-save | grep '^:NETAVARK'
find /sys/fs/cgroup -type d | sort
cat /proc/sys/net/ipv4/ip_forward
"""
"""Everything that a container may leave: the engine's own, mounts, rules, control groups, forwarding."""


def make_context(folder: Path, name: str = "context", *, goarch: str = "amd64", text: str = "") -> Path:
    """Build the static server, and return the folder that its image is built from; `text` makes it another one."""
    context = folder / name
    context.mkdir()
    shutil.copy(SOURCES / "Dockerfile", context)
    source = (SOURCES / "server.go").read_text().replace('"Hello World"', f'"Hello World{text}"')
    (context / "server.go").write_text(source)
    environment = {**os.environ, "CGO_ENABLED": "0", "GOARCH": goarch, "GOFLAGS": "-buildvcs=false -trimpath"}
    build = ["go", "build", "-o", str(context / "server"), str(context / "server.go")]
    subprocess.run(build, check=True, env=environment, cwd=context)
    (context / "server.go").unlink()
    return context


def build_image(context: Path, name: str, *options: str) -> str:
    """Build an image with podman on this machine; return its name."""
    subprocess.run(["podman", "build", "-q", *options, "-t", name, str(context)], check=True, capture_output=True)
    return name


def engine_state(lab: Lab, host: str) -> list[str]:
    """Return all that an engine may leave on a lab host, as lines, after it was used once."""
    warm_up = "podman info >/dev/null 2>&1\n"
    done = subprocess.run(
        [*lab.ssh_command(host), "sh"], input=warm_up + ENGINE_STATE, capture_output=True, text=True, check=False
    )
    return done.stdout.splitlines()
