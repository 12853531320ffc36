"""A lab that one command starts for itself and removes at its end."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchkit.lab.lab import Lab
    from benchkit.models.base import SplitCpus


def split_cpus() -> SplitCpus:
    """Return the CPUs for servers and load tool on the only host of a lab, as a lab of two hosts would have them.

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
    loopback interface alone, and servers see the files that this shell sees, those in /tmp included; with `on_loopback`
    that interface is this machine's.
    """
    from benchkit.cli.console import say
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
