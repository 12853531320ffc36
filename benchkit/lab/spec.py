"""What a lab is asked to be: its hosts, what they are for, and how fast their links are."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from benchkit.errors import InputError
from benchkit.hosts.inventory import Name as Role
from benchkit.models.base import Frozen

NAME_VARIABLE = "BENCHKIT_LAB"
DEFAULT_NAME = "lab"
MAX_HOSTS = 32
MIN_LINK_BPS = 64_000.0
MAX_LINK_BPS = 400e9
"""Between a modem and the fastest Ethernet of today; what lies outside is a slip of the unit."""

_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?")
_RATE = re.compile(r"(?P<number>[0-9]+(?:\.[0-9]+)?)(?P<unit>[kmgt]?)bit(?:/s)?", re.IGNORECASE)
_UNITS = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
"""tc's units: decimal multiples of bits per second (tc(8), PARAMETERS, RATES)."""
_RESERVED = frozenset({"localhost", "controller"})


def _host_label(text: str) -> str:
    if not _LABEL.fullmatch(text) or text in _RESERVED:
        raise ValueError(
            f"found {text!r}; allowed: up to 32 lower-case letters, digits and dashes, no dash at either end, "
            f"but not {' or '.join(sorted(_RESERVED))}"
        )
    return text


Label = Annotated[str, AfterValidator(_host_label)]
"""A name that is safe as a host name and as a folder."""


class LabHost(Frozen):
    """One host of a lab."""

    name: Label
    roles: tuple[Role, ...] = Field(min_length=1)
    link_bps: float | None = Field(
        default=None, ge=MIN_LINK_BPS, le=MAX_LINK_BPS, description="cap of its link in either direction"
    )


class LabSpec(Frozen):
    """A lab's name and shape; the default is one server and one load generator."""

    name: Label = DEFAULT_NAME
    hosts: tuple[LabHost, ...] = Field(
        default=(LabHost(name="sut", roles=("sut",)), LabHost(name="load", roles=("load",))),
        min_length=1,
        max_length=MAX_HOSTS,
    )
    shared: bool = Field(default=False, description="every host may use every CPU")

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        names = [host.name for host in self.hosts]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"host names stand twice: {', '.join(twice)}")
        return self

    def described(self) -> str:
        """The shape in words, for people."""
        hosts = ", ".join(
            f"{host.name} ({', '.join(host.roles)}{f'; {host.link_bps / 1e6:g} Mbit/s' if host.link_bps else ''})"
            for host in self.hosts
        )
        return f"{hosts}{', all CPUs shared' if self.shared else ''}"


def lab_name(given: str | None = None) -> str:
    """The name a lab goes by: as given, else from the environment, else `lab`. Raises InputError for an unsafe one."""
    name = given or os.environ.get(NAME_VARIABLE) or DEFAULT_NAME
    try:
        return _host_label(name)
    except ValueError as error:
        raise InputError("not a lab's name", where="--name" if given else NAME_VARIABLE, why=str(error)) from None


def shape(name: str, hosts: Sequence[str], links: Sequence[str], *, shared: bool) -> LabSpec:
    """A lab from the words of a command line: `NAME=role[,role]` and `[NAME=]RATE`. Raises InputError for others."""
    found = [_host(text) for text in hosts] or list(LabSpec().hosts)
    names = [host.name for host in found]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InputError(f"given twice: {', '.join(twice)}", where="--host", hint="a host has one name and any roles")
    if len(found) > MAX_HOSTS:
        raise InputError(f"{len(found)} hosts", where="--host", why=f"a lab has at most {MAX_HOSTS}")
    caps = _caps(links, names)
    return LabSpec(
        name=name,
        hosts=tuple(host.model_copy(update={"link_bps": caps.get(host.name)}) for host in found),
        shared=shared,
    )


def parse_rate(text: str) -> float:
    """`200mbit`, `1.5gbit` → bits per second. Raises ValueError for anything else."""
    match = _RATE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"found {text!r}; allowed: a number and kbit, mbit or gbit, as in 200mbit")
    rate = float(match["number"]) * _UNITS[match["unit"].lower()]
    if not MIN_LINK_BPS <= rate <= MAX_LINK_BPS:
        raise ValueError(f"found {text!r}; allowed: 64kbit to 400gbit")
    return rate


def _host(text: str) -> LabHost:
    name, equals, roles = text.partition("=")
    if not equals or not roles:
        raise InputError(f"found {text!r}", where="--host", why="allowed: NAME=role[,role], as in client=load")
    try:
        return LabHost(name=name, roles=tuple(roles.split(",")))
    except ValueError as error:  # pydantic's, whose sentences are those of the validators
        raise InputError(f"found {text!r}", where="--host", why=_reasons(error)) from None


def _reasons(error: ValueError) -> str:
    lines = str(error).splitlines()
    marked = [line.strip().partition("Value error, ")[2].partition(" [type=")[0] for line in lines]
    return "; ".join(line for line in marked if line) or str(error)


def _caps(links: Iterable[str], names: Sequence[str]) -> dict[str, float]:
    """Caps by host: those of single hosts over the one of all."""
    for_all: dict[str, float] = {}
    for_one: dict[str, float] = {}
    for text in links:
        name, equals, rate = text.rpartition("=")
        if equals and name not in names:
            raise InputError(f"no host {name!r} in this lab", where="--link", hint=f"hosts are: {', '.join(names)}")
        try:
            bps = parse_rate(rate)
        except ValueError as error:
            raise InputError(str(error), where="--link") from None
        if equals:
            for_one[name] = bps
        else:
            for_all = dict.fromkeys(names, bps)
    return {**for_all, **for_one}
