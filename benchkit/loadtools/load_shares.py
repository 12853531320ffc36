"""Division of a load among generators, and the checks that a tool can generate each share. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from benchkit import units
from benchkit.loadtools.registry import tools_with_rate
from benchkit.loadtools.tool import NEED_RATE, Objection, Tool
from benchkit.models.load import Load

RATE_STEPS = 1000
"""Steps per request per second in which rates are divided: every tool takes thousandths without rounding."""


def divide_load(load: Load, generators: int) -> tuple[Load, ...]:
    """Return the share of each generator: connections, requests and rate divided, the first ones get the remainders.

    Raises ValueError where the load cannot be divided, with the reasons that `objections` gives.
    """
    if generators == 1:
        return (load.model_copy(update={"processes": 1}),)
    reasons = [objection.why for objection in _indivisible(load, generators)]
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


def objections(tool: Tool, load: Load, generators: int) -> tuple[Objection, ...]:
    """Return everything in `load`, warm-up included, that this number of generators of `tool` cannot do.

    Each objection stands once, with the share of the first generator that has it. Empty where the tool can do it all.
    """
    indivisible = tuple(_indivisible(load, generators)) if generators > 1 else ()
    if indivisible:
        return indivisible
    unique: dict[Objection, Objection] = {}
    for share in divide_load(load, generators):
        suffix = f" (one of {generators} generators has {_describe(share)})" if generators > 1 else ""
        for objection in _objections_to_share(tool, share):
            why = objection.why if objection.concerns_requests else objection.why + suffix
            if tool.rate is None and objection.field in {"rate", *NEED_RATE}:
                why += f"; these tools can hold a rate: {', '.join(tools_with_rate())}"
            unique.setdefault(objection, Objection(objection.field, why))
    return tuple(unique.values())


def _objections_to_share(tool: Tool, load: Load) -> Iterator[Objection]:
    measured = tool.objections(load)
    yield from measured
    if load.warmup_s:
        for objection in tool.objections(warm_up_load(load).model_copy(update={"histogram": load.histogram})):
            if objection.field == "duration_s":
                yield Objection("warmup_s", objection.why)
            elif objection not in measured:
                yield Objection(objection.field, f"in the warm-up, {objection.why}")


def _indivisible(load: Load, generators: int) -> Iterator[Objection]:
    if load.rate is not None and load.rate != round(load.rate * RATE_STEPS) / RATE_STEPS:
        yield Objection("rate", f"divided among generators in thousandths of a request per second, not {load.rate!r}")
    for name, amount in (
        ("connections", load.connections),
        ("request_count", load.request_count),
        ("rate", _rate_steps(load)),
    ):
        if amount is not None and amount < generators:
            total = load.rate if name == "rate" else amount
            yield Objection(name, f"{total:g} is too few for {generators} generators: each needs a share")


def _rate_steps(load: Load) -> int | None:
    return None if load.rate is None else round(load.rate * RATE_STEPS)


def _divide(total: int | None, parts: int) -> list[int | None]:
    if total is None:
        return [None] * parts
    share, remainder = divmod(total, parts)
    return [share + (i < remainder) for i in range(parts)]


def _describe(share: Load) -> str:
    """Return the amounts of a share for messages: `4 connections, 100 requests`."""
    amounts = [units.counted(share.connections, "connection")]
    if share.request_count is not None:
        amounts.append(units.counted(share.request_count, "request"))
    if share.rate is not None:
        amounts.append(f"{share.rate:g} requests/s")
    return ", ".join(amounts)
