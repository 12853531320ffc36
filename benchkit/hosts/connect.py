"""Connecting to hosts: SSH, the agent, its facts; to all hosts of an inventory at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from types import TracebackType
from typing import Self, TypeVar

from benchkit.agent.frames import PROTOCOL
from benchkit.errors import BenchkitError, HostError
from benchkit.hosts import bootstrap
from benchkit.hosts.host import Host
from benchkit.hosts.inventory import HostSpec, Inventory
from benchkit.hosts.link import Link

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
        link = Link(spec.name, stream, bootstrap.start(stream, spec.name, agent))
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
    hosts = Hosts(inventory, [result for result in results if isinstance(result, Host)])
    errors = [result for result in results if isinstance(result, BenchkitError)]
    if errors:
        hosts.close()
        raise errors[0] if len(errors) == 1 else HostError("\n".join(map(str, errors)))
    return hosts


class Hosts:
    """The connected hosts of an inventory, in its order; a context manager that closes them."""

    def __init__(self, inventory: Inventory, hosts: Sequence[Host]) -> None:
        """Take over hosts that are connected."""
        self.inventory = inventory
        self._hosts = {host.name: host for host in hosts}

    def __getitem__(self, name: str) -> Host:
        return self._hosts[name]

    def __iter__(self) -> Iterator[Host]:
        return iter(self._hosts.values())

    def __len__(self) -> int:
        return len(self._hosts)

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

    def close(self) -> tuple[str, ...]:
        """Close all at once; what could not be stopped or put back, for people."""
        return tuple(failure for failures in self.each(Host.close) for failure in failures)

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
