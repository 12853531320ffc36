"""Connections to hosts (SSH, agent, facts), made to all hosts of an inventory in parallel."""

from __future__ import annotations

import getpass
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self, TypeVar

from benchkit.errors import BenchkitError, HostError, InputError, LostError
from benchkit.hosts import bootstrap
from benchkit.hosts.agent_link import AgentLink
from benchkit.hosts.host import Host, Leftovers
from benchkit.hosts.inventory import HostSpec, Inventory

RECONNECT_S = 120.0
"""Time to reach a lost host again, such as after a reboot or with a cable plugged in again."""
RECONNECT_PAUSES_S = (1.0, 8.0)
"""First and longest pause between two attempts; pauses double."""

CONNECTIONS_AT_ONCE = 8
"""Hosts connected to at the same time: more handshakes would only wait for this machine's CPU."""

HEARTBEATS_PER_LEASE = 4
"""Heartbeats sent to an idle host within one lease."""

Item = TypeVar("Item")
Result = TypeVar("Result")

logger = logging.getLogger(__name__)


def connect(
    spec: HostSpec, others: Mapping[str, HostSpec] | None = None, *, lease_s: float = bootstrap.LEASE_S
) -> Host:
    """Connect to one host; `others` are the hosts of the inventory, by name, that may be its jump hosts.

    Its agent restores everything and ends after `lease_s` seconds without a heartbeat. Raises HostError, or InputError
    for a key file that does not exist.
    """
    from benchkit.hosts.ssh import SshConnection  # noqa: PLC0415 - Fabric is slow to import

    logger.info("%s: connecting", spec.name)
    began = time.monotonic()
    agent = bootstrap.agent_file()
    connection = SshConnection(spec, others or {})
    with ExitStack() as undo:
        undo.callback(connection.close)
        connection.open()
        stream = connection.run(bootstrap.command(agent, spec.workdir, lease_s))
        receive = bootstrap.start(stream, spec.name, agent)
        stream.time_out_after(lease_s / HEARTBEATS_PER_LEASE)
        link = AgentLink(spec.name, stream, receive, lease_s / HEARTBEATS_PER_LEASE)
        undo.callback(link.close, 1.0)
        hello = link.hello()
        logger.info("%s: agent %d of watchdog %d is ready", spec.name, hello.pid, hello.watchdog)
        host = Host(spec, link)
        undo.pop_all()
    logger.info("%s: connected after %.3f s", spec.name, time.monotonic() - began)
    return host


def connect_all(inventory: Inventory, *, lease_s: float = bootstrap.LEASE_S) -> Hosts:
    """Connect to all hosts of an inventory that have a role, in parallel.

    Raises HostError with the problem of every host that cannot be reached; the other connections are closed.
    """
    others = {spec.name: spec for spec in inventory.hosts}
    specs = [spec for spec in inventory.hosts if spec.roles]
    interrupted = threading.Event()
    connected: list[Host] = []

    def connect_one(spec: HostSpec) -> Host:
        host = connect(spec, others, lease_s=lease_s)
        connected.append(host)
        if interrupted.is_set():  # the caller has stopped waiting
            host.hang_up()
        return host

    try:
        results = _in_parallel(specs, connect_one, CONNECTIONS_AT_ONCE)
    except BaseException:
        interrupted.set()
        for host in connected:
            host.hang_up()
        raise
    hosts = Hosts(inventory, [result for result in results if isinstance(result, Host)], lease_s)
    errors = [result for result in results if isinstance(result, BenchkitError)]
    if errors:
        hosts.close()
        raise errors[0] if len(errors) == 1 else HostError("\n".join(map(str, errors)))
    return hosts


@dataclass(frozen=True)
class RestoreOutcome:
    """The hosts that were not, or not confirmed to be, restored at closing: reasons by host name."""

    not_restored: Mapping[str, str] = field(default_factory=dict)
    """Hosts whose agent reported what it could not stop or restore."""
    unconfirmed: Mapping[str, str] = field(default_factory=dict)
    """Hosts whose agent did not confirm its end: their watchdogs restore them."""

    @property
    def messages(self) -> tuple[str, ...]:
        """All reasons."""
        return (*self.not_restored.values(), *self.unconfirmed.values())


class Hosts:
    """The connected hosts of an inventory, in its order; a context manager that closes them."""

    def __init__(self, inventory: Inventory, hosts: Sequence[Host], lease_s: float = bootstrap.LEASE_S) -> None:
        """Take over connected hosts; `lease_s` is the lease after a reconnection."""
        self.inventory = inventory
        self._hosts = {host.name: host for host in hosts}
        self._lease_s = lease_s
        self._run: str | None = None
        self._closed = False
        self.leftovers: dict[str, Leftovers] = {}
        """Traces of earlier runs on each host when it was locked."""

    def __getitem__(self, name: str) -> Host:
        return self._hosts[name]

    def __iter__(self) -> Iterator[Host]:
        return iter(list(self._hosts.values()))

    def __len__(self) -> int:
        return len(self._hosts)

    def __contains__(self, name: object) -> bool:
        return name in self._hosts

    def map(self, function: Callable[[Host], Result]) -> list[Result]:
        """Call a function for all hosts in parallel; return its results in their order, or raise the first error."""
        results = _in_parallel(list(self), function)
        for result in results:
            if isinstance(result, BenchkitError):
                raise result
        return [result for result in results if not isinstance(result, BenchkitError)]

    def lock(self, run: str) -> None:
        """Lock all hosts for a run until they are closed, and restore what earlier runs left; see `leftovers`.

        Lock before planning, because leftovers of an earlier run change the facts of a host. A second call for the same
        run does nothing. Raises HostError naming the holder of a host, or the change that cannot be restored.
        """
        if self._run != run:
            self._run = run
            leftovers = self.map(lambda host: host.lock_for(run, _user()))
            self.leftovers = dict(zip(self._hosts, leftovers, strict=True))

    def kernel_host(self, name: str) -> Host:
        """Return the host through which a host's kernel is changed: itself, or the lock's holder on its machine.

        The last change must be restored first, so one agent makes all changes of a kernel.
        """
        host = self[name]
        return host if host.shared_with is None else self._hosts.get(host.shared_with, host)

    def unreachable(self) -> tuple[str, ...]:
        """Return the names of the hosts that do not answer."""
        return tuple(
            host.name
            for host, answer in zip(self, _in_parallel(list(self), Host.compare_clocks), strict=True)
            if isinstance(answer, BenchkitError)
        )

    def reconnect(self, name: str, timeout_s: float = RECONNECT_S) -> Host:
        """Connect again to a host whose link is dead, and lock it again; its watchdog has restored it by then.

        Attempts are repeated for `timeout_s` seconds. Raises HostError, also where a file of the inventory has
        disappeared, as after its lab was removed.
        """
        logger.info("%s: reconnecting for up to %g s", name, timeout_s)
        deadline, pause_s = time.monotonic() + timeout_s, RECONNECT_PAUSES_S[0]
        others = {spec.name: spec for spec in self.inventory.hosts}
        self._hosts[name].hang_up()
        while True:
            try:
                host = connect(others[name], others, lease_s=self._lease_s)
                break
            except InputError as error:
                hint = "the host is gone, or the inventory was changed during the run: a lab may have been taken down"
                raise HostError(error.what, where=error.where, why=error.why, hint=hint) from error
            except LostError as error:
                if time.monotonic() + pause_s > deadline:
                    raise
                logger.info("%s: retrying in %g s: %s", name, pause_s, error)
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, RECONNECT_PAUSES_S[1])
        host.find_programs(self._hosts[name].sought_programs)
        self._hosts[name] = host
        if self._run is not None:
            self.leftovers[name] = host.lock_for(self._run, _user())
        return host

    def drop(self, name: str) -> None:
        """Remove a lost host; its watchdog restores it."""
        logger.info("%s: removed from the run, its watchdog restores it", name)
        self._hosts.pop(name).hang_up()

    def close(self) -> RestoreOutcome:
        """Have all hosts restored and close them, in parallel. A second call does nothing."""
        if self._closed:
            return RestoreOutcome()
        failures = {host.name: "; ".join(each) for host, each in zip(self, self.map(Host.close), strict=True)}
        confirmed = {host.name for host in self if host.link.shutdown_confirmed}
        self._closed = True
        return RestoreOutcome(
            {name: failure for name, failure in failures.items() if failure and name in confirmed},
            {name: failure for name, failure in failures.items() if name not in confirmed},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        failures = self.close().messages
        if failures and error is None:
            raise HostError("hosts were not restored", why="; ".join(failures))
        if error is not None:
            for failure in failures:
                error.add_note(failure)


def run_on_hosts(hosts: Sequence[Host], function: Callable[[Host], Result]) -> list[Result]:
    """Call a function for these hosts in parallel; a failure for one host cancels no other call.

    When all calls have ended, raises the HostError of the first host that failed.
    """
    if not hosts:
        return []
    with ThreadPoolExecutor(len(hosts)) as pool:
        futures = [pool.submit(function, host) for host in hosts]  # `map` cancels pending calls when one fails
    return [future.result() for future in futures]


def _user() -> str:
    return f"{getpass.getuser()}@{socket.gethostname()}"


def _in_parallel(
    items: Sequence[Item], function: Callable[[Item], Result], at_once: int | None = None
) -> list[Result | BenchkitError]:
    """Call a function for all items in parallel, or for `at_once` of them; return the result, or the error, of each.

    An interruption does not wait for running calls; closing their hosts ends them.
    """

    def attempt(item: Item) -> Result | BenchkitError:
        try:
            return function(item)
        except BenchkitError as error:
            return error

    if not items:
        return []
    pool = ThreadPoolExecutor(at_once or len(items))
    try:
        return list(pool.map(attempt, items))
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
