"""Generators carried out: all of them, on all load hosts, started at one instant."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from pathlib import PurePosixPath
from typing import TypeVar

from benchkit.hosts.connections import Hosts
from benchkit.load.generators.generator import Generator
from benchkit.load.generators.group import GeneratorGroup, GeneratorProcess, GeneratorRun, Left

LEAD_S = 0.03
LEAD_EXCHANGES = 20
"""How far ahead the common start is: time for the hosts' own work, and for so many messages there and back."""

Each = TypeVar("Each")


def _nothing(_members: Sequence[GeneratorProcess]) -> None:
    """What is done at the start where nothing is."""


def drive(
    hosts: Hosts,
    generators: Sequence[Generator],
    folder: PurePosixPath,
    begun: Callable[[Sequence[GeneratorProcess]], None] = _nothing,
) -> tuple[GeneratorRun, ...]:
    """Run generators side by side to their ends, their files in `folder` on their hosts.

    Several are started at one instant. `begun` is called with them once all have started; it should not take long. Raises HostError, naming generator and host, with its last
    words, where one fails or hangs; the others are ended then.
    """
    crews = [
        GeneratorGroup(
            hosts[name],
            [GeneratorProcess(each, hosts[name], folder) for each in generators if each.host == name],
            folder,
        )
        for name in dict.fromkeys(each.host for each in generators)
    ]
    members = [member for crew in crews for member in crew.members]
    with ThreadPoolExecutor(len(generators)) as pool:
        beginning: list[Future[None]] = []
        try:
            beginning += _submit(pool, GeneratorGroup.prepare, crews)
            _all(beginning)
            at_s = None if len(generators) == 1 else _instant(crews)
            beginning += _submit(pool, lambda crew: crew.start(at_s), crews)
            _all(beginning)
            begun(members)
            _all(_submit(pool, GeneratorProcess.wait_for_tool, members))
            _all(_submit(pool, GeneratorProcess.wait_for_reducer, members))
        except BaseException:
            wait(beginning)  # what is being started must be known, to be stopped
            with ExitStack() as stops:  # lets those return who wait for them
                for crew in crews:
                    stops.callback(crew.stop)
            raise
    return tuple(member.drove() for member in members)


def fetch(hosts: Hosts, drove: Sequence[GeneratorRun]) -> Mapping[int, Mapping[Left, bytes]]:
    """What generators left, by their number; what is empty is left out. Raises HostError."""

    def of_one(each: GeneratorRun) -> Mapping[Left, bytes]:
        files = hosts[each.generator.host].files
        left = {kind: files.read(path) for kind, path in each.files.items()}
        return {kind: content for kind, content in left.items() if content}

    with ThreadPoolExecutor(len(drove)) as pool:
        return dict(zip((each.generator.number for each in drove), pool.map(of_one, drove), strict=True))


def _instant(crews: Iterable[GeneratorGroup]) -> float:
    """When to start, on the controller's `time.monotonic()`: far enough ahead for every host to be told in time."""
    slowest_s = max(2 * crew.host.clock.uncertainty_s for crew in crews)  # there and back
    return time.monotonic() + LEAD_S + LEAD_EXCHANGES * slowest_s


def _submit(pool: ThreadPoolExecutor, do: Callable[[Each], None], each: Iterable[Each]) -> list[Future[None]]:
    return [pool.submit(do, one) for one in each]


def _all(futures: Sequence[Future[None]]) -> None:
    """Wait for all, or for the first that fails, and raise its error."""
    done, _ = wait(futures, return_when=FIRST_EXCEPTION)
    for future in futures:
        if future in done:
            future.result()
