"""Containers on a host, by the commands that podman and docker share: images, networks, start, removal."""

from __future__ import annotations

import logging
import re
import time

from benchkit.agent.containers import Containers
from benchkit.agent.operations import Completed
from benchkit.agent.processes import ProcessTable
from benchkit.agent.settings import Sysctls
from benchkit.errors import HostError, HostStateError, ServiceError
from benchkit.hosts.host import Host
from benchkit.hosts.processes import HostProcess
from benchkit.models.facts import EngineFact
from benchkit.models.run import BuildRecord
from benchkit.services.service import Container, Service
from benchkit.units import size

ENGINE_TIMEOUT_S = 30.0
LOAD_TIMEOUT_S = 600.0
"""Time to load or pull an image."""
CREATE_TIMEOUT_S = 30.0
"""Time for an engine to start the first process of a container."""
KILLED = "137"
"""Exit code of a container whose first process got SIGKILL: 128 + 9."""
PAUSE_S = 0.02
_UNKNOWN = re.compile("no such container|no container with", re.IGNORECASE)
_NO_SPACE = re.compile("no space left on device", re.IGNORECASE)
FORWARDING = {"net.ipv4.ip_forward": "1"}
"""Setting that bridges need. Engines change it for good; benchkit sets it before them, and restores it."""

INFO = {
    "podman": "{{.Version.Version}}|{{.Store.GraphDriverName}}|{{.Host.CgroupManager}}|{{.Host.CgroupsVersion}}"
    "|{{.Host.Security.Rootless}}|{{.Host.OCIRuntime.Version}}",
    "docker": "{{.ServerVersion}}|{{.Driver}}|{{.CgroupDriver}}|{{.CgroupVersion}}|{{.SecurityOptions}}"
    "|{{.DefaultRuntime}}",
}
"""Facts of an engine as `info --format` prints them, in the same order."""

logger = logging.getLogger(__name__)


def engine_name(path: str) -> str:
    """Return the name of the engine whose program has this path: podman, unless the program is docker."""
    return "docker" if path.rpartition("/")[2] == "docker" else "podman"


def read_engine(host: Host, name: str) -> EngineFact:
    """Return the facts of an engine on a host. Raises HostError where it cannot be used, with what is missing."""
    argv = (host.facts.programs[name].path, "info", "--format", INFO[name])
    done = host.processes.run(argv, timeout_s=ENGINE_TIMEOUT_S)
    fields = done.stdout.decode(errors="replace").strip().split("|", INFO[name].count("|"))
    if not done.ok or len(fields) <= INFO[name].count("|") or not fields[0]:
        hint = (
            "start its daemon, and let this user reach its socket" if name == "docker" else "correct that on the host"
        )
        why = done.printed or f"it did not end within {ENGINE_TIMEOUT_S:g} s"
        raise HostError(f"{name} cannot be used", where=host.name, why=why, hint=hint)
    version, driver, manager, groups, security, runtime = fields
    return EngineFact(
        version=version,
        runtime=runtime.partition("\n")[0] or None,
        storage_driver=driver or None,
        cgroup_manager=manager or None,
        cgroup_version=groups.removeprefix("v") or None,
        rootless=security == "true" or "rootless" in security,
    )


def bring_image(host: Host, container: Container, backend: str) -> None:
    """Load or pull the image of a container, unless the host has it. Raises HostError."""
    if _ok(host, container, "image", "inspect", container.image):
        return
    host.call(Containers.track, container.engine, [container.image])
    argv: tuple[str, ...] = (container.engine, "pull", "-q", container.image)
    what = f"cannot pull the image {container.image}"
    if container.archive is not None:
        argv = (container.engine, "load", "-q", "-i", str(container.archive))
        what = f"cannot load the image {container.image} of {backend}"
    logger.info("%s: %s", host.name, " ".join(argv))
    done = host.processes.run(argv, timeout_s=LOAD_TIMEOUT_S)
    if done.ok and _ok(host, container, "image", "inspect", container.image):
        return
    why = done.printed or f"it did not end within {LOAD_TIMEOUT_S:g} s"
    if _NO_SPACE.search(why):
        raise HostStateError(what, where=host.name, why=f"the engine's image store is full: {why}")
    raise HostError(what, where=host.name, why=why)


def pulled_image(host: Host, container: Container) -> BuildRecord:
    """Return the record of an image that the host has by its name. Raises HostError."""
    done = _run(host, container, "image", "inspect", "-f", "{{.Id}}", container.image)
    if not done.ok:
        raise HostError(f"the image {container.image} is gone", where=host.name, why=done.printed)
    image_id = done.stdout.decode().strip().removeprefix("sha256:")
    return BuildRecord(image=container.image, output_sha256=image_id)


def start_arguments(host: Host, service: Service, container: Container, trial: str) -> tuple[str, ...]:
    """Make what a container needs, and return the arguments that start it, with the labels of the run.

    Raises HostError.
    """
    label, parent = host.call(Containers.track, container.engine)
    labels = ("--label", label, "--label", f"benchkit.trial={trial}")
    _run(host, container, "rm", "-f", "-v", container.name)
    if container.network != "host":
        host.call(Sysctls.write, FORWARDING)
    bridge = container.bridge
    if bridge is not None and not _ok(host, container, "network", "inspect", bridge.name):
        what = f"cannot create the network {bridge.name} ({bridge.subnet})"
        _require(host, container, what, "network", "create", *labels, "--subnet", bridge.subnet, bridge.name)
    for volume in container.volumes:
        if not _ok(host, container, "volume", "inspect", volume):
            _require(host, container, f"cannot create the volume {volume}", "volume", "create", *labels, volume)
    fact = host.facts.engines.get(engine_name(container.engine))
    group = ("--cgroup-parent", f"/{parent}") if fact is not None and fact.cgroup_manager == "cgroupfs" else ()
    argv = service.process.argv
    options = argv.index("run") + 1
    return (*argv[:options], *labels, *group, *argv[options:])


def adopt(host: Host, container: Container, process: HostProcess) -> None:
    """Wait until a container runs, and count its processes as the engine's client. Raises HostError.

    Returns early where the client has ended, which the caller notices. The name of a container's group contains its
    id. A process that has just ended seems to be in the root group (kernel/cgroup/cgroup.c, proc_cgroup_show).
    """
    deadline = time.monotonic() + CREATE_TIMEOUT_S
    while time.monotonic() < deadline:
        state = _state(host, container)
        if state and state[0] != "0":
            path = host.call(ProcessTable.cgroup_of, int(state[0]))
            if path is not None and state[1] in path:
                host.call(ProcessTable.count_by_cgroup, process.id, path)
                return
        if process.wait(PAUSE_S) is not None:
            return
    raise HostError(
        f"no process of the container was in a control group of its own within {CREATE_TIMEOUT_S:g} s",
        where=host.name,
        why="its CPU time is counted by its group",
        hint="engines without root need version 2 of control groups, and systemd, which delegates one to the user",
    )


def remove(host: Host, container: Container) -> None:
    """Remove a container with its volumes, if there is one. Idempotent. Raises HostError."""
    done = _run(host, container, "rm", "-f", "-v", container.name)
    if not done.ok and not _UNKNOWN.search(done.printed):
        raise HostError(f"the container {container.name} cannot be removed", where=host.name, why=done.printed)
    for volume in container.volumes:
        if _ok(host, container, "volume", "inspect", volume):
            _require(host, container, f"cannot remove the volume {volume}", "volume", "rm", "-f", volume)


def why_ended(host: Host, container: Container, process: HostProcess) -> str | None:
    """Return what the engine knows about the end of a container; None: nothing. Raises HostError."""
    state = _state(host, container)
    if not state:
        return "the engine no longer knows the container, or does not answer"
    pid, _, is_killed_for_memory, code, limit, error = state
    ended = process.wait(0)
    has_killed = code == KILLED and limit not in ("0", "") and ended is not None and bool(ended.memory_kills)
    if is_killed_for_memory == "true" or has_killed:  # not every kernel tells the engine
        of = f" is {size(int(limit))}" if limit not in ("0", "") else " is unknown"
        return f"the kernel killed it for memory: its limit{of}"
    if pid != "0":
        return "the engine stopped running it, and its processes were still there"
    return error or None


def wait_ready(host: Host, container: Container, process: HostProcess, deadline: float) -> None:
    """Wait until the command that tests a container exits with code 0. Raises HostError."""
    while container.ready:
        done = _run(host, container, "exec", container.name, *container.ready)
        if done.ok:
            return
        if time.monotonic() > deadline or process.wait(PAUSE_S) is not None:
            raise HostError(
                f"`{' '.join(container.ready)}` does not exit with code 0", where=host.name, why=done.printed
            )


def prepare(host: Host, service: Service, container: Container) -> None:
    """Run the command that prepares the data of a container. Raises ServiceError with the end of what it printed."""
    if not container.prepare:
        return
    done = host.processes.run((container.engine, "exec", container.name, *container.prepare), timeout_s=LOAD_TIMEOUT_S)
    if not done.ok:
        raise ServiceError(f"`prepare` of {service.name} failed", where=host.name, why=done.printed or str(done.ended))


def _state(host: Host, container: Container) -> list[str]:
    """Return pid, id, end by memory, exit code, memory limit and error of a container; empty where there is none."""
    form = "{{.State.Pid}}|{{.Id}}|{{.State.OOMKilled}}|{{.State.ExitCode}}|{{.HostConfig.Memory}}|{{.State.Error}}"
    done = _run(host, container, "container", "inspect", "-f", form, container.name)
    return done.stdout.decode(errors="replace").strip().split("|", 5) if done.ok else []


def _require(host: Host, container: Container, what: str, *words: str) -> None:
    done = _run(host, container, *words)
    if not done.ok:
        raise HostError(what, where=host.name, why=done.printed)


def _ok(host: Host, container: Container, *words: str) -> bool:
    return _run(host, container, *words).ok


def _run(host: Host, container: Container, *words: str) -> Completed:
    return host.processes.run((container.engine, *words), timeout_s=ENGINE_TIMEOUT_S)
