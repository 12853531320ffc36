"""Shares of a load: its division among generators, its unsupported fields, and the times of slices. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from benchkit.loadtools.registry import get_tool, tools_with_rate
from benchkit.loadtools.tool import NEED_RATE, Tool, UnsupportedField
from benchkit.models.load import Load

RATE_STEPS = 1000
"""Steps per request per second in which rates are divided: every tool takes thousandths without rounding."""


def divide_load(load: Load, generators: int) -> tuple[Load, ...]:
    """Return the share of each generator: connections, requests and rate divided, the first ones get the remainders.

    Raises ValueError where the load cannot be divided, with the reasons that `unsupported_fields` gives.
    """
    if generators == 1:
        return (load.model_copy(update={"processes": 1}),)
    reasons = [unsupported.why for unsupported in _indivisible(load, generators)]
    if reasons:
        raise ValueError("; ".join(reasons))
    rates = [None if steps is None else steps / RATE_STEPS for steps in _divide(_rate_steps(load), generators)]
    shares = zip(_divide(load.connections, generators), _divide(load.request_count, generators), rates, strict=True)
    return tuple(
        load.model_copy(update={"connections": connections, "request_count": requests, "rate": rate, "processes": 1})
        for connections, requests, rate in shares
    )


def warm_up_load(load: Load) -> Load:
    """Return the same load for the time of its warm-up, with nothing recorded; a shape stays at its base."""
    window = {"duration_s": load.warmup_s, "request_count": None, "histogram": False, "shape": None}
    if load.shape is not None and load.rate is not None:
        window["rate"] = round(load.rate * load.shape.base * RATE_STEPS) / RATE_STEPS
    return load.model_copy(update=window)


def unsupported_fields(tool: Tool, load: Load, generators: int) -> tuple[UnsupportedField, ...]:
    """Return everything in `load`, warm-up included, that this number of generators of `tool` cannot do.

    Each reason stands once. Empty where the tool can do it all.
    """
    indivisible = tuple(_indivisible(load, generators)) if generators > 1 else ()
    if indivisible:
        return indivisible
    unique: dict[UnsupportedField, UnsupportedField] = {}
    for share in divide_load(load, generators):
        suffix = f" (in the share of one of {generators} generators)" if generators > 1 else ""
        for unsupported in _unsupported_in_share(tool, share):
            why = unsupported.why if unsupported.concerns_requests else unsupported.why + suffix
            if tool.rate is None and unsupported.field in {"rate", *NEED_RATE}:
                why += f"; these tools can hold a rate: {', '.join(tools_with_rate())}"
            unique.setdefault(unsupported, UnsupportedField(unsupported.field, why))
    return tuple(unique.values())


def _unsupported_in_share(tool: Tool, load: Load) -> Iterator[UnsupportedField]:
    measured = tool.unsupported_fields(load)
    yield from measured
    if load.warmup_s:
        for unsupported in tool.unsupported_fields(warm_up_load(load).model_copy(update={"histogram": load.histogram})):
            if unsupported.field == "duration_s":
                yield UnsupportedField("warmup_s", unsupported.why)
            elif unsupported not in measured:
                yield UnsupportedField(unsupported.field, f"in the warm-up, {unsupported.why}")


def _indivisible(load: Load, generators: int) -> Iterator[UnsupportedField]:
    if load.rate is not None and load.rate != round(load.rate * RATE_STEPS) / RATE_STEPS:
        yield UnsupportedField("rate", f"benchkit divides it in thousandths of a request per second, not {load.rate!r}")
    for name, amount in (
        ("connections", load.connections),
        ("request_count", load.request_count),
        ("rate", _rate_steps(load)),
    ):
        if name == "rate" and load.pace == "recorded":
            yield UnsupportedField("pace", f"recorded times are not divided among {generators} generators: use one")
        elif amount is not None and amount < generators:
            total = load.rate if name == "rate" else amount
            yield UnsupportedField(name, f"{total:g} is too few for {generators} generators: each needs a share")


def _rate_steps(load: Load) -> int | None:
    return None if load.rate is None else round(load.rate * RATE_STEPS)


def _divide(total: int | None, parts: int) -> list[int | None]:
    if total is None:
        return [None] * parts
    share, remainder = divmod(total, parts)
    return [share + (i < remainder) for i in range(parts)]


LEAST_LEAD_S = 0.02
"""Time from the start of a load tool to its first requests, on a busy core. With one request on each of 16 connections,
h2load ended 10 ms after its start; with 100 connections, 20 to 30 ms."""
CONNECT_S = 0.0003
"""Time to open a connection, where one core connects and another accepts. The last of 1,000 connections had its first
answer 0.12 s (h2load) and 0.21 s (openloop) after the start of the tool. The last of 4,000 had it after 0.37 and 0.69 s
(medians of five). On a machine busy with other programs, h2load took 0.27 to 0.40 s for 1,000."""
HANDSHAKE_S = 0.0007
"""Time to open a connection with a full handshake of TLS. nginx took 0.68 ms of CPU time with RSA-2048, 0.47 ms with
ECDSA."""
MARGIN_S = 0.01
"""Time from the end of a window to the next start: a tool's measured time ends later by as long as it took to start."""
ANSWERS_S = 0.02
"""More of it after a window at a rate, for the last answers. The start of a tool, or a sample of the host, delays an
answer by some 1 ms: 5 % of one that takes as long as this."""


class Pauses(NamedTuple):
    """The time of a slice before and after its window, in seconds."""

    lead_s: float
    margin_s: float


def pauses(load: Load, *, has_tls: bool = False) -> Pauses:
    """Return the lead of a slice, and the margin in which its load tools end before the next ones start."""
    answers_s = 0.0 if load.rate is None else ANSWERS_S
    return Pauses(lead_s(load, has_tls=has_tls), round(MARGIN_S + answers_s + get_tool(load.tool).overrun_s, 3))


def lead_s(load: Load, *, has_tls: bool = False) -> float:
    """Return the time from the start of the load tools of a slice to its window, in seconds; whole milliseconds.

    It grows with the connections of all generators together, as the servers accept all of them. For a tool that opens
    connections within its measured time, it is the time of the tool's start alone.
    """
    if get_tool(load.tool).lead is None:
        return LEAST_LEAD_S
    connecting_s = load.connections * (CONNECT_S + has_tls * HANDSHAKE_S)
    return max(LEAST_LEAD_S, math.ceil(round(connecting_s * 1000, 6)) / 1000)


def turn_s(pauses: Pauses, slice_s: float) -> float:
    """Return the time that a slice takes with its lead and margin, in seconds."""
    return pauses.lead_s + slice_s + pauses.margin_s
