"""The hosts that options name, and the servers and requests of `versus`, `capacity` and `bisect`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from benchkit.cli.console import say
from benchkit.errors import InputError, UnreachedError

if TYPE_CHECKING:
    from benchkit.hosts.inventory import Inventory
    from benchkit.lab.lab import Lab
    from benchkit.models.base import SplitCpus
    from benchkit.models.request import Request, SecretValue

Result = TypeVar("Result")


def inventory_of(path: Path | None, lab: str | None = None, *, quiet: bool = False) -> Inventory:
    """Return the inventory at `path`, of the named lab, or of the lab of this checkout and user.

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
    With `on_loopback` the host has the loopback interface of this machine.
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


def on_hosts_for(
    command: str,
    servers: Sequence[str],
    inventory: Path | None,
    lab: str | None,
    *,
    quiet: bool,
    act: Callable[[Inventory], Result],
) -> Result:
    """Return what `act` returns for the hosts that the options name, else for those of a new lab for this command.

    The lab has a network of its own. Where `act` raises UnreachedError, it is called again for a lab that has the
    network of this machine.
    """
    try:
        with _hosts_for(command, servers, inventory, lab, quiet=quiet) as hosts:
            return act(hosts)
    except UnreachedError as error:
        if inventory is not None or lab is not None or ip_address(hosts.hosts[0].address).is_loopback:
            raise
        if not quiet:
            say(f"{error.summary}\nIts host now has the network of this machine, with its databases. It begins again.")
    with own_lab(command, is_one_host=True, on_loopback=True, quiet=quiet) as started:
        return act(started.inventory())


@contextmanager
def _hosts_for(
    command: str, servers: Sequence[str], inventory: Path | None, lab: str | None, *, quiet: bool
) -> Iterator[Inventory]:
    """Yield the hosts that the options name, else those of a new lab for this command."""
    from benchkit.scenario.server_arguments import is_on_this_machine

    if inventory is None and lab is None:
        on_loopback = any(map(is_on_this_machine, servers))
        with own_lab(command, is_one_host=True, on_loopback=on_loopback, quiet=quiet) as started:
            yield started.inventory()
    else:
        yield inventory_of(inventory, lab, quiet=quiet)


def wait_idle_hosts(inventory: Inventory, seconds: float | None, limit: float, *, quiet: bool) -> None:
    """Wait up to `seconds` until nothing else uses the CPUs of the hosts; None: do not wait."""
    if seconds is not None:
        from benchkit.hosts.connections import connect_all
        from benchkit.hosts.other_programs import wait_until_idle

        with connect_all(inventory) as hosts:
            wait_until_idle(hosts, seconds, limit, (lambda _text: None) if quiet else say)


def place_of(files: Sequence[Path], inventory: Path | None, lab: str | None) -> dict[str, Any]:
    """Return the fields of a `ServerComparison` that say where its servers start.

    In a lab they start in this folder, with this shell's PATH, unless files are carried.
    """
    carried = tuple(str(file.resolve()) for file in files)
    return {
        "files": carried,
        "cwd": None if carried or inventory is not None else str(Path.cwd()),
        "search_path": None if inventory is not None else os.environ.get("PATH", os.defpath),
        "cpus": split_cpus() if inventory is None and lab is None else None,
    }


def named_servers(servers: Sequence[str], names: str | None) -> dict[str, str]:
    """Return the servers by name. Raises BadParameter without servers, and InputError for invalid names and URLs."""
    from benchkit.scenario.server_arguments import server_names

    if not servers:
        why = "name the servers: each is a command line in quotes or a URL; a single one is measured alone"
        raise typer.BadParameter(why, param_hint="SERVER")
    given = [name.strip() for name in names.split(",")] if names else []
    return dict(zip(server_names(servers, given), servers, strict=True))


def read_requests(
    requests: Sequence[str] | None,
    *,
    servers: Sequence[str] = (),
    path: str | None,
    method: str | None,
    body: str | None,
    headers: Sequence[str] | None,
    headers_env: Sequence[str] | None,
) -> tuple[Request, ...]:
    """Return the requests of the options; each of `requests` whose method takes a body has it.

    The default path is the one in the URLs of the servers. Raises BadParameter, and InputError for several paths.
    """
    from pydantic import ValidationError

    from benchkit.models.request import WITH_CONTENT, Request
    from benchkit.scenario.server_arguments import request_path
    from benchkit.validation import first_fault

    of_urls = request_path(servers, path)
    if requests and (path is not None or method is not None or of_urls != "/"):
        why = "a request has its own method and path: omit --path, --method and the paths of URLs"
        raise typer.BadParameter(why, param_hint="--request")
    default = "GET" if body is None else "POST"
    pairs = [_method_and_path(text, default) for text in requests or ()] or [(method or default, of_urls)]
    content = {"body": body}
    if body is not None and body.startswith("@"):
        content = {"body_file": str(Path(body[1:]).absolute())}
    sent = _headers(headers or (), headers_env or ())
    try:
        return tuple(
            Request.model_validate(
                {
                    "method": verb,
                    "path": target,
                    "headers": sent,
                    **(content if not requests or verb in WITH_CONTENT else {}),
                }
            )
            for verb, target in pairs
        )
    except ValidationError as error:
        raise InputError("a request cannot be sent", why=first_fault(error, Request)) from None


def _method_and_path(text: str, default: str) -> tuple[str, str]:
    words = text.split()
    if len(words) not in (1, 2):
        raise typer.BadParameter(f"{text!r} is not of the form 'METHOD PATH'", param_hint="--request")
    return (default, words[0]) if len(words) == 1 else (words[0].upper(), words[1])


def _headers(lines: Sequence[str], from_environment: Sequence[str]) -> dict[str, str | SecretValue]:
    """Return the headers of the options. Raises BadParameter, which quotes no value."""
    from pydantic import ValidationError

    from benchkit.models.request import SecretValue, is_secret

    headers: dict[str, str | SecretValue] = dict(_pairs(lines, "--header", "NAME: VALUE"))
    for name in filter(is_secret, headers):
        message = f"{name} may hold a secret: export it, and write --header-env '{name}: VARIABLE'"
        raise typer.BadParameter(message, param_hint="--header")
    for name, variable in _pairs(from_environment, "--header-env", "NAME: VARIABLE"):
        try:
            headers[name] = SecretValue(env=variable)
        except ValidationError:
            raise typer.BadParameter(f"the variable for {name} has no valid name", param_hint="--header-env") from None
    return headers


def _pairs(lines: Sequence[str], option: str, form: str) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(lines, 1):
        name, colon, value = line.partition(":")
        if not colon:
            raise typer.BadParameter(f"number {number} is not of the form {form!r}", param_hint=option)
        yield name.strip(), value.strip()
