"""The specification of a lab: its hosts, their roles, and the rates of their links."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Annotated, Self

from pydantic import AfterValidator, Field, ValidationError, model_validator

from benchkit.errors import InputError
from benchkit.hosts.inventory import HostName as Role
from benchkit.models.base import Frozen

NAME_VARIABLE = "BENCHKIT_LAB"
DEFAULT_NAME = "lab"
MAX_HOSTS = 64
MIN_LINK_BPS = 64_000.0
MAX_LINK_BPS = 400e9
"""Allowed rates, from a modem to today's fastest Ethernet; any other value must have a wrong unit."""

_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?")
_RATE = re.compile(r"(?P<number>[0-9]+(?:\.[0-9]+)?)(?P<unit>[kmgt]?)bit(?:/s)?", re.IGNORECASE)
_UNITS = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
"""Units of tc: decimal multiples of bits per second (tc(8), PARAMETERS, RATES)."""
_RESERVED = frozenset({"localhost", "controller"})


def _host_label(text: str) -> str:
    if not _LABEL.fullmatch(text) or text in _RESERVED:
        raise ValueError(
            f"found {text!r}; allowed: up to 32 lower-case letters, digits and dashes, no dash at either end, "
            f"but not {' or '.join(sorted(_RESERVED))}"
        )
    return text


Label = Annotated[str, AfterValidator(_host_label)]
"""A name that is valid for a host and for a folder."""


class LabHost(Frozen):
    """One host of a lab."""

    name: Label
    roles: tuple[Role, ...] = Field(min_length=1)
    link_bps: float | None = Field(default=None, description="rate limit of its link in either direction")


class LabSpec(Frozen):
    """Name and hosts of a lab; the default is one server and one load host."""

    name: Label = DEFAULT_NAME
    hosts: tuple[LabHost, ...] = Field(
        default=(LabHost(name="sut", roles=("sut",)), LabHost(name="load", roles=("load",))),
        min_length=1,
        max_length=MAX_HOSTS,
    )
    shared: bool = Field(default=False, description="every host may use every CPU")
    on_loopback: bool = Field(
        default=False, description="hosts share the network of the machine, so that they reach its loopback interface"
    )

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        names = [host.name for host in self.hosts]
        if duplicates := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"duplicate host names: {', '.join(duplicates)}; give all roles of a host in one option")
        return self


def requested_name(given: str | None = None) -> str | None:
    """Return the name of a lab as given, else from the environment, else None.

    Raises InputError for an invalid name.
    """
    name = os.environ.get(NAME_VARIABLE) or None if given is None else given
    if name is None:
        return None
    try:
        return _host_label(name)
    except ValueError as error:
        raise InputError("not a valid name of a lab", where=name_origin(given), why=str(error)) from None


def name_origin(given: str | None) -> str:
    """Return where the name of a lab came from, for messages."""
    return NAME_VARIABLE if given is None else "--lab"


def parse_shape(name: str, hosts: Sequence[str], links: Sequence[str], *, shared: bool) -> LabSpec:
    """Return the lab that the options for hosts (`NAME=role[,role]`) and links (`NAME=RATE`) describe.

    Raises InputError.
    """
    named = [text.partition("=") for text in hosts]
    parsed: list[dict[str, object]] = [{"name": host, "roles": tuple(roles.split(","))} for host, _, roles in named]
    parsed = parsed or [host.model_dump() for host in LabSpec().hosts]
    for text in links:
        link, _, rate = text.partition("=")
        capped = next((host for host in parsed if host["name"] == link), None)
        if capped is None:
            known = ", ".join(str(host["name"]) for host in parsed)
            raise InputError(f"no host {link!r} in this lab", where="--link", hint=f"hosts are: {known}")
        capped["link_bps"] = parse_rate(rate)
    try:
        return LabSpec.model_validate({"name": name, "hosts": parsed, "shared": shared})
    except ValidationError as error:
        reasons = "; ".join(each["msg"].removeprefix("Value error, ") for each in error.errors())
        hint = "write NAME=ROLE[,ROLE], as in client=load"
        raise InputError("these hosts do not form a lab", where="--host", why=reasons, hint=hint) from None


def parse_rate(text: str) -> float:
    """Return bits per second of a rate such as `200mbit` or `1.5gbit`. Raises InputError for any other text."""
    match = _RATE.fullmatch(text.strip())
    rate = float(match["number"]) * _UNITS[match["unit"].lower()] if match else 0.0
    if not MIN_LINK_BPS <= rate <= MAX_LINK_BPS:
        why = "allowed: NAME=RATE, a rate of 64kbit to 400gbit, as in sut=200mbit"
        raise InputError(f"found {text!r}", where="--link", why=why)
    return rate
