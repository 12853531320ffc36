"""A cluster of Dask on hosts: a scheduler on the first of them, and a worker process for each core of all.

The watchdog of each host guards the processes, as for `benchkit service`, but for a limited time. It ends them and
restores the host on `down`, or when that time is over. No run can use these hosts meanwhile.

Whoever reaches the port of the scheduler can run programs as its user: Dask has no authentication without TLS. It binds
to the address of its host in the inventory, for networks that are trusted.
"""

from __future__ import annotations

import json
import shlex
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from benchkit.errors import HostError, InputError
from benchkit.hosts.connections import Hosts
from benchkit.hosts.host import Host
from benchkit.hosts.processes import HostProcess, ProcessSpec, StopSignal, ToFile
from benchkit.hosts.sockets import Tcp
from benchkit.plan.host_capabilities import HostCapabilities
from benchkit.plugins.dask.executor import connect_client, version_differences, versions
from benchkit.run.deployment import held_hosts

HOLDER = "cluster"
"""Name under which hosts are held for a cluster, which others see when a host is in use."""
PYTHON = "benchkit-python"
"""Program of the inventory whose Python has benchkit and Dask; without it, the path of the Python that runs here."""
SCHEDULER_PORT, DASHBOARD_PORT = 8786, 8787
"""The ports that Dask's documentation names."""
START_TIMEOUT_S = 60.0
"""Time for a scheduler or a worker to import everything on a busy host."""
STOP_S = 5.0
FOLDER = PurePosixPath("cluster")

_VERSIONS = "import json, benchkit.plugins.dask.executor as executor; print(json.dumps(dict(executor.versions())))"

Notify = Callable[[str], None]


@dataclass(frozen=True)
class RunningCluster:
    """A cluster that is up."""

    address: str
    """Address of its scheduler, for `--cluster`."""
    dashboard: str
    """URL of its dashboard."""
    workers: Mapping[str, int]
    """Worker processes by host."""


def up(hosts: Hosts, lease_s: float, notify: Notify) -> RunningCluster:
    """Start a cluster that ends after `lease_s` seconds unless it is taken down before.

    Raises InputError for a host whose Python lacks a package or has another version, HostError where a host is held or
    something does not start. All hosts are restored then.
    """
    if held := held_hosts(HOLDER, hosts):
        raise HostError("a cluster is already up", where=", ".join(held), hint="`benchkit cluster down` ends it")
    hosts.lock(HOLDER)
    machines = [host for host in hosts if host.shared_with is None]
    pythons = {host.name: _python(host) for host in machines}
    first = machines[0]
    first.sockets.require_free([SCHEDULER_PORT, DASHBOARD_PORT])
    at = Tcp(_address(first), SCHEDULER_PORT)
    address = f"tcp://{at.address}:{at.port}"
    dashboard = f"{at.address}:{DASHBOARD_PORT}"
    notify(f"starting the scheduler on {first.name}")
    listens = ("--host", at.address, "--port", str(at.port), "--dashboard-address", dashboard)
    scheduler = _start(first, "scheduler", pythons[first.name], *listens)
    try:
        first.sockets.wait_open(at, START_TIMEOUT_S, scheduler)
    except HostError as error:
        log = first.files.read(FOLDER / "scheduler.log").decode(errors="replace").strip()
        raise HostError("the scheduler did not start", where=first.name, why=log or error.why or error.what) from error
    workers = {host.name: len(host.facts.cpus) for host in machines}
    for host in machines:
        notify(f"starting {workers[host.name]} workers on {host.name}")
        own = _address(host)
        options = ["--nworkers", str(workers[host.name]), "--nthreads", "1", "--name", host.name]
        options += ["--host", own, "--no-dashboard", "--dashboard-address", f"{own}:0"]  # else on all addresses
        folder = host.files.mkdir_temporary(FOLDER / "spilled")
        _start(host, "worker", pythons[host.name], address, *options, "--local-directory", str(folder))
    with connect_client(address, wait_for=sum(workers.values()), timeout_s=START_TIMEOUT_S):
        pass
    for host in machines:
        host.lock.keep(lease_s)
    return RunningCluster(address, f"http://{dashboard}/status", workers)


def status(hosts: Hosts) -> tuple[tuple[str, ...], str | None]:
    """Return the hosts that are held for a cluster, and the address of its scheduler; None where none is up.

    Raises HostError where a host does not answer.
    """
    held = held_hosts(HOLDER, hosts)
    for name in held:
        if hosts[name].sockets.owners([SCHEDULER_PORT])[SCHEDULER_PORT]:
            return held, f"tcp://{_address(hosts[name])}:{SCHEDULER_PORT}"
    return held, None


def _python(host: Host) -> str:
    """Return the Python of a host that has this version of benchkit, and Dask.

    Raises InputError naming what is missing, and the commands that install it.
    """
    python = host.spec.programs.get(PYTHON, sys.executable)
    own = versions()
    try:
        asked = host.processes.run([python, "-c", _VERSIONS], timeout_s=START_TIMEOUT_S)
        lines = asked.stderr.decode(errors="replace").strip().splitlines()
        why = (
            version_differences(own, json.loads(asked.stdout)) if asked.ok else lines[-1] if lines else str(asked.ended)
        )
    except HostError as error:
        why = error.why or error.what
    if not why:
        return python
    pinned = [f"{name}=={version}" for name, version in own.items() if name not in {"python", "benchkit"}]
    environment = f"python{own['python']} -m venv ~/benchkit-python"
    packages = shlex.join([f"benchkit[dask]=={own['benchkit']}", *pinned])
    raise InputError(
        f"{python} cannot work for this benchkit",
        where=host.name,
        why=why,
        hint=f"there: {environment} && ~/benchkit-python/bin/pip install {packages}; "
        f"then in the inventory: programs: {{{PYTHON}: HOME/benchkit-python/bin/python}}",
    )


def _start(host: Host, part: str, python: str, *options: str) -> HostProcess:
    """Start a part of Dask that outlives this connection; its log has no limit, as it prints a line for each event."""
    host.files.mkdir_temporary(FOLDER)
    return host.processes.start(
        ProcessSpec(
            (python, "-m", "dask", part, *options),
            stdout=ToFile(FOLDER / f"{part}.log", None),
            stderr="stdout",
            stop=StopSignal(signal.SIGTERM, STOP_S),
        )
    )


def _address(host: Host) -> str:
    """Return the address at which others reach a host. Raises InputError for IPv6, to which no dashboard binds."""
    address = HostCapabilities(host.spec, host.facts).address
    if ":" in address:
        raise InputError(
            "a cluster of Dask needs IPv4 addresses",
            where=f"{host.name}: {address}",
            hint="name one in the inventory: service_address: 10.0.0.1",
        )
    return address
