"""Connecting to hosts: SSH, the agent, its facts; to all hosts of an inventory at once."""

from __future__ import annotations

import getpass
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self, TypeVar

from benchkit.agent.frames import PROTOCOL
from benchkit.errors import BenchkitError, HostError, LostError
from benchkit.hosts import bootstrap
from benchkit.hosts.agent_link import Link
from benchkit.hosts.host import Host
from benchkit.hosts.host_changes import Leftovers
from benchkit.hosts.inventory import HostSpec, Inventory

RECONNECT_S = 120.0
"""How long a host is tried to be reached again: a cable that is plugged in again, a reboot."""
PAUSES_S = (1.0, 8.0)
"""Between two tries, the first and the longest; each is twice that before it."""

SIGNS_A_LEASE = 4
"""How often a host that is asked nothing is asked for a sign of life, which renews its lease."""

Given = TypeVar("Given")
Result = TypeVar("Result")


def connect(
    spec: HostSpec, others: Mapping[str, HostSpec] | None = None, *, lease_s: float = bootstrap.LEASE_S
) -> Host:
    """Connect to one host; `others` are those of the inventory, by name, that may be its jump hosts.

    An agent that hears nothing for `lease_s` seconds tidies and ends. Raises HostError, or InputError for a key file
    that is not there.
    """
    from benchkit.hosts.ssh import SshConnection  # noqa: PLC0415 - Fabric is slow to import

    agent = bootstrap.agent_file()
    connection = SshConnection(spec, others or {})
    with ExitStack() as undo:
        undo.callback(connection.close)
        connection.open()
        stream = connection.run(bootstrap.command(agent, spec.workdir, lease_s))
        receive = bootstrap.start(stream, spec.name, agent)
        stream.say_silence_after(lease_s / SIGNS_A_LEASE)
        link = Link(spec.name, stream, receive, lease_s / SIGNS_A_LEASE)
        undo.callback(link.close, 1.0)
        spoken = link.hello().fields["protocol"]
        if spoken != PROTOCOL:
            raise HostError(f"the agent speaks protocol {spoken}, not {PROTOCOL}", where=spec.name)
        host = Host(spec, link)
        undo.pop_all()
    return host


def connect_all(inventory: Inventory, *, lease_s: float = bootstrap.LEASE_S) -> Hosts:
    """Connect to all hosts of an inventory that have a role, at once.

    Raises HostError with what is wrong at every host that is not reached; the others are let go again.
    """
    others = {spec.name: spec for spec in inventory.hosts}
    specs = [spec for spec in inventory.hosts if spec.roles]
    results = _each(specs, lambda spec: connect(spec, others, lease_s=lease_s))
    hosts = Hosts(inventory, [result for result in results if isinstance(result, Host)], lease_s)
    errors = [result for result in results if isinstance(result, BenchkitError)]
    if errors:
        hosts.close()
        raise errors[0] if len(errors) == 1 else HostError("\n".join(map(str, errors)))
    return hosts


@dataclass(frozen=True)
class RestoreOutcome:
    """How hosts were left where that was not in good order: what there is to know of each, by its name."""

    not_restored: Mapping[str, str] = field(default_factory=dict)
    """What could not be stopped or put back there, in the words of its agent."""
    unseen: Mapping[str, str] = field(default_factory=dict)
    """Why a host was not seen to be put back: its guardian does that."""


class Hosts:
    """The connected hosts of an inventory, in its order; a context manager that closes them."""

    def __init__(self, inventory: Inventory, hosts: Sequence[Host], lease_s: float = bootstrap.LEASE_S) -> None:
        """Take over hosts that are connected; `lease_s` for when one is connected anew."""
        self.inventory = inventory
        self._hosts = {host.name: host for host in hosts}
        self._lease_s = lease_s
        self._run: str | None = None
        self._closed = False
        self.found: dict[str, Leftovers] = {}
        """What an earlier run had left on each host when it was held."""

    def __getitem__(self, name: str) -> Host:
        return self._hosts[name]

    def __iter__(self) -> Iterator[Host]:
        return iter(self._hosts.values())

    def __len__(self) -> int:
        return len(self._hosts)

    def __contains__(self, name: object) -> bool:
        return name in self._hosts

    def by_role(self, role: str) -> tuple[Host, ...]:
        """The hosts with this role."""
        return tuple(host for host in self if role in host.spec.roles)

    def each(self, do: Callable[[Host], Result]) -> list[Result]:
        """Do something on all hosts at once; the results in their order. Raises what was raised at the first of them."""
        results = _each(list(self), do)
        for result in results:
            if isinstance(result, BenchkitError):
                raise result
        return [result for result in results if not isinstance(result, BenchkitError)]

    def hold(self, run: str) -> None:
        """Hold all hosts for a run until they are closed, and clear them of what earlier ones have left; see `found`.

        To be done before a run is planned, for hosts may not be themselves until then. Doing it again is fine. Raises
        HostError naming who holds a host, since when, or what cannot be put back.
        """
        if self._run != run:
            self._run = run
            found = self.each(lambda host: host.claim(run, _who()))
            self.found = dict(zip(self._hosts, found, strict=True))

    def kernel_of(self, name: str) -> Host:
        """The host through which the kernel of a host is changed: itself, or the one that is the same machine.

        What was changed last has to be put back first, so that all changes of a kernel are one agent's.
        """
        host = self[name]
        return host if host.shared_with is None else self._hosts.get(host.shared_with, host)

    def lost(self) -> tuple[str, ...]:
        """The hosts that do not answer."""
        return tuple(
            host.name
            for host, answer in zip(self, _each(list(self), Host.compare_clocks), strict=True)
            if isinstance(answer, BenchkitError)
        )

    def reconnect(self, name: str, patience_s: float = RECONNECT_S) -> Host:
        """Connect anew to a host whose link is dead, and hold it again; what it had is put back by then.

        A host that cannot be reached is tried for `patience_s` seconds. Raises HostError.
        """
        deadline, pause_s = time.monotonic() + patience_s, PAUSES_S[0]
        others = {spec.name: spec for spec in self.inventory.hosts}
        self._hosts[name].let_go()
        while True:
            try:
                host = connect(others[name], others, lease_s=self._lease_s)
                break
            except LostError:
                if time.monotonic() + pause_s > deadline:
                    raise
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, PAUSES_S[1])
        self._hosts[name] = host
        if self._run is not None:
            self.found[name] = host.claim(self._run, _who())
        return host

    def give_up(self, name: str) -> None:
        """Have no more to do with a host that is lost: what is there to be put back its guardian puts back."""
        self._hosts.pop(name).let_go()

    def part(self) -> RestoreOutcome:
        """Close all at once; how they were left, where it is the first time."""
        if self._closed:
            return RestoreOutcome()
        said = {host.name: "; ".join(failures) for host, failures in zip(self, self.each(Host.close), strict=True)}
        seen = {host.name for host in self if host.in_good_order}
        self._closed = True
        return RestoreOutcome(
            {name: failures for name, failures in said.items() if failures and name in seen},
            {name: failures for name, failures in said.items() if name not in seen},
        )

    def close(self) -> tuple[str, ...]:
        """Close all at once; what could not be stopped or put back, for people."""
        parting = self.part()
        return (*parting.not_restored.values(), *parting.unseen.values())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        failures = self.close()
        if failures and error is None:
            raise HostError("hosts were not left as they were found", why="; ".join(failures))
        if error is not None:
            for failure in failures:
                error.add_note(failure)


def _who() -> str:
    """Who holds a host, as others are told: the user and the machine of the controller."""
    return f"{getpass.getuser()}@{socket.gethostname()}"


def _each(given: Sequence[Given], do: Callable[[Given], Result]) -> list[Result | BenchkitError]:
    """Do something to all at once; what came of each, an error being one of the things that can."""

    def attempt(one: Given) -> Result | BenchkitError:
        try:
            return do(one)
        except BenchkitError as error:
            return error

    if not given:
        return []
    with ThreadPoolExecutor(len(given)) as pool:
        return list(pool.map(attempt, given))
