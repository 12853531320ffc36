"""Images of a static server, built FROM scratch, and what an engine has left on a lab host."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchkit.agent.facts import LAB_LINKS
from benchkit.lab.lab import Lab, down, up
from benchkit.lab.spec import LabSpec
from tests.support.paths import TESTS

SOURCES = TESTS / "support/containers"

ENGINE_STATE = """
ENGINE ps -aq; ENGINE network ls --format '{{.Name}}'; ENGINE volume ls -q; ENGINE images -q
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


def engine_state(lab: Lab, host: str, engine: str = "podman") -> list[str]:
    """Return all that an engine may leave on a lab host, as lines, after it was used once."""
    script = ("ENGINE info >/dev/null 2>&1\n" + ENGINE_STATE).replace("ENGINE", engine)
    done = subprocess.run([*lab.ssh_command(host), "sh"], input=script, capture_output=True, text=True, check=False)
    return done.stdout.splitlines()


def wait_for_engine_state(before: list[str], lab: Lab, host: str, engine: str = "podman") -> None:
    """Wait until an engine has left nothing; conmon and the kernel clean up after a removed container."""
    deadline = time.monotonic() + 100  # an engine takes seconds for each of its commands on a busy machine
    while (now := engine_state(lab, host, engine)) != before:
        assert time.monotonic() < deadline, sorted({*before} ^ {*now})
        time.sleep(0.5)


DOCKERD = """
echo '{}' >/run/docker.json; rm -f /run/docker.pid; limit=$(ulimit -Hn)
exec dockerd --config-file /run/docker.json --storage-driver vfs --default-ulimit "nofile=$limit:$limit" \
  --data-root /run/docker-data --exec-root /run/docker-exec --pidfile /run/docker.pid --host unix:///run/docker.sock \
"""
"""Start of a daemon with all that it writes in the host's own /run."""
DOCKER_S = 180.0


@contextmanager
def docker_lab(*options: str) -> Iterator[Lab]:
    """Give a lab whose `sut` has docker, with a daemon that ends with the lab, and no podman.

    A daemon forbids forwarding, which the bridges of podman need. At the end this machine is as it was.
    """
    before = machine_state()
    made = up(LabSpec(name=f"pytest-docker-{os.getpid()}"), temporary=True)
    try:
        hide = "mount --bind /dev/null $(command -v podman)"
        subprocess.run([*made.ssh_command("sut"), hide], check=True)
        start_docker(made, *options)
        yield made
    finally:
        down(made.name)
    assert machine_state() == before


def start_docker(lab: Lab, *options: str) -> None:
    """Start docker's daemon on `sut`, and wait until it answers."""
    log = "</dev/null >>/var/log/dockerd.log 2>&1"
    script = f"setsid sh -c {shlex.quote(DOCKERD + shlex.join(options))} {log} &"
    subprocess.run([*lab.ssh_command("sut"), script], check=True)
    deadline = time.monotonic() + DOCKER_S
    while subprocess.run([*lab.ssh_command("sut"), "docker info"], capture_output=True, check=False).returncode != 0:
        assert time.monotonic() < deadline, subprocess.run(
            [*lab.ssh_command("sut"), "tail -n 20 /var/log/dockerd.log"], capture_output=True, text=True, check=False
        ).stdout


def machine_state() -> list[str]:
    """Return what an engine on a host of a lab might change on this machine, as lines."""
    script = "iptables-save | grep -v '^[#:]'; cat /proc/sys/net/ipv4/ip_forward; ls /sys/class/net; grep docker /proc/mounts"
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=False)
    return [line for line in done.stdout.splitlines() if not line.startswith(LAB_LINKS)]
