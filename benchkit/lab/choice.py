"""Choice of the lab that a command uses: the named one, else the one of this checkout and user."""

from __future__ import annotations

from collections.abc import Sequence

from benchkit.agent.undo import Undo
from benchkit.errors import HostError, InputError
from benchkit.hosts.connections import connect
from benchkit.hosts.inventory import HostSpec
from benchkit.lab.lab import Lab, down, find_lab, has_processes, lab_names, labs_up, owner_of
from benchkit.lab.spec import DEFAULT_NAME, NAME_VARIABLE, name_origin, requested_name
from benchkit.lab.state import describe_owner


def choose_lab(given: str | None = None) -> Lab:
    """Return the lab named by `given`, else by `$BENCHKIT_LAB`, else the lab of this checkout and user.

    Raises InputError, listing the labs that are up, where it is not up or this checkout has several.
    """
    name = requested_name(given)
    if name is not None:
        lab = find_lab(name)
        if lab is None:
            raise InputError(
                f"no lab {name!r} is up",
                where=name_origin(given),
                why=list_labs(labs_up()),
                hint=f"`benchkit lab up --name {name}` starts it",
            )
        return lab
    labs = [lab for lab in labs_up() if lab.owner is None or lab.owner.temporary_pid is None]
    own = [lab for lab in labs if lab.owner is not None and lab.owner.is_current()]
    if len(own) == 1:
        return own[0]
    if own:
        raise _several([lab.name for lab in own])
    raise InputError(
        "no inventory was given and no lab of this checkout is up",
        why=list_labs(labs),
        hint="`benchkit lab up` starts one for this checkout, --lab NAME uses another; -i INV names your own hosts",
    )


def own_names() -> list[str]:
    """Return the names of this checkout's labs that are up, or left by a killed `up`."""
    owners = {name: owner_of(name) for name in lab_names()}
    return [name for name, owner in owners.items() if owner and owner.is_current() and owner.temporary_pid is None]


def default_name() -> str | None:
    """Return the name of this checkout's lab that is up, or left by a killed `up`; None without one.

    Raises InputError where there are several.
    """
    own = own_names()
    if len(own) > 1:
        raise _several(own)
    return own[0] if own else None


def new_name() -> str:
    """Return a free name for a lab of this checkout: `lab`, else `lab-2` and so on."""
    number = 1
    while has_processes(name := DEFAULT_NAME if number == 1 else f"{DEFAULT_NAME}-{number}"):
        number += 1
    return name


def list_labs(labs: Sequence[Lab]) -> str:
    """Return a sentence that lists the labs that are up and their owners."""
    if not labs:
        return "no lab is up"
    return f"labs that are up: {'; '.join(f'{lab.name} (of {describe_owner(lab.owner)})' for lab in labs)}"


def require_removable(name: str) -> None:
    """Raise InputError where a lab belongs to another owner, or a run or a service holds one of its hosts."""
    if not has_processes(name):
        return  # remains of a lab, which nobody can be using
    owner = owner_of(name)
    if owner is None or not owner.is_current():
        raise InputError(
            f"the lab {name!r} is not removed",
            why=f"it belongs to {describe_owner(owner)}",
            hint=f"`benchkit lab down --name {name} --force` removes it anyway",
        )
    lab = find_lab(name)
    holders = {} if lab is None else {host.name: _holder(lab, host) for host in lab.inventory().hosts}
    if used := [f"{host} is in use: {holder}" for host, holder in holders.items() if holder is not None]:
        raise InputError(
            f"the lab {name!r} is not removed",
            why="; ".join(used),
            hint="wait for the run, or end the services with `benchkit service down`; "
            f"`benchkit lab down --name {name} --force` removes the lab anyway",
        )


def remove_abandoned() -> None:
    """Remove temporary labs of this owner whose processes were killed before they could remove them."""
    for name in lab_names():
        owner = owner_of(name)
        if owner is not None and owner.is_current() and owner.is_abandoned():
            down(name)


def _holder(lab: Lab, host: HostSpec) -> str | None:
    """Return the run or service that holds a host of a lab; None for a host that does not answer.

    Hosts on loopback share one lock with the machine. A process that is not of this lab holds it for other hosts.
    """
    try:
        with connect(host) as connected:
            holder = connected.call(Undo.traces).holder
    except (HostError, InputError):
        return None
    if holder is None or (lab.state.mode == "loopback" and not lab.has_session(holder.pid)):
        return None
    return str(holder)


def _several(names: Sequence[str]) -> InputError:
    return InputError(
        f"this checkout has several labs: {', '.join(names)}",
        hint=f"choose one with --lab NAME or {NAME_VARIABLE}",
    )
