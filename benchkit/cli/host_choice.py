"""Choice of the hosts that a command works on: an inventory, a lab, or a lab of the command itself."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from benchkit.cli.console import say
from benchkit.errors import InputError

if TYPE_CHECKING:
    from benchkit.hosts.inventory import Inventory
    from benchkit.lab.lab import Lab
    from benchkit.models.base import SplitCpus


def inventory_of(path: Path | None, lab: str | None = None, *, quiet: bool = False) -> Inventory:
    """Return the inventory at `path`, or a lab's: of the named lab, else of this checkout and user.

    Unless `quiet`, a line on stderr names the lab and its owner. Raises InputError where there is neither.
    """
    if path is not None:
        if lab is not None:
            raise InputError("-i and --lab exclude each other", hint="give the inventory or the lab, not both")
        from benchkit.hosts.inventory import load_inventory

        return load_inventory(path)
    from benchkit.lab.choice import choose_lab
    from benchkit.lab.state import describe_owner

    chosen = choose_lab(lab)
    if not quiet:
        say(f"lab: {chosen.name}, of {describe_owner(chosen.owner)}")
    return chosen.inventory()


def split_cpus() -> SplitCpus:
    """Divide the CPUs of a lab's only host between servers and load tool, as a lab of two hosts divides them.

    Raises InputError where this machine cannot have a lab.
    """
    from benchkit.lab.lab import require_linux
    from benchkit.lab.limits import divide_cpus, usable_cores
    from benchkit.lab.spec import LabSpec
    from benchkit.models.base import SplitCpus

    require_linux()
    cores = usable_cores()
    everything = sorted(cpu for core in cores for cpu in core)
    divided = divide_cpus(LabSpec().hosts, cores, shared=False)
    servers, load = (",".join(str(everything.index(cpu)) for cpu in divided[name]) for name in ("sut", "load"))
    return SplitCpus(servers=servers, load=load)


@contextmanager
def own_lab(
    command: str, *, is_one_host: bool = False, on_loopback: bool = False, quiet: bool = False
) -> Iterator[Lab]:
    """Yield a new lab that nothing else uses, named after the command, and remove it at the end.

    With `is_one_host` servers and load tool share one host, so that the load reaches servers that listen on its
    loopback interface alone. Servers then see the files that this shell sees, those in /tmp included.
    With `on_loopback` that interface is this machine's.
    """
    from benchkit.lab.choice import remove_abandoned
    from benchkit.lab.lab import down, up
    from benchkit.lab.spec import LabHost, LabSpec

    remove_abandoned()
    name = f"{command}-{os.getpid()}"
    try:
        hosts = (LabHost(name="host", roles=("sut", "load")),) if is_one_host else LabSpec().hosts
        lab = up(LabSpec(name=name, hosts=hosts, on_loopback=on_loopback), temporary=True)
        if not quiet:
            say(f"lab: {name}, of this command; it is removed at the end")
        yield lab
    finally:
        down(name)


@contextmanager
def hosts_for(
    command: str, servers: Sequence[str], inventory: Path | None, lab: str | None, *, quiet: bool
) -> Iterator[Inventory]:
    """Yield the hosts that the options name, or the hosts of a lab of the command's own."""
    from benchkit.scenario.server_arguments import is_on_this_machine

    if inventory is None and lab is None:
        on_loopback = any(map(is_on_this_machine, servers))
        with own_lab(command, is_one_host=True, on_loopback=on_loopback, quiet=quiet) as started:
            yield started.inventory()
    else:
        yield inventory_of(inventory, lab, quiet=quiet)
