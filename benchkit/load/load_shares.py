"""A load divided among generators. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from benchkit import units
from benchkit.load.tools.tool import Objection, Tool
from benchkit.models.load import Load

RATE_STEPS = 1000
"""Rates are divided in thousandths of a request per second, which every tool takes as they are."""


def shares(load: Load, generators: int) -> tuple[Load, ...]:
    """What each of so many generators does: connections, requests and rate divided, remainders to the first ones.

    Raises ValueError where that cannot be done, as `objections` says.
    """
    if generators == 1:
        return (load.model_copy(update={"processes": 1}),)
    undividable = [objection.why for objection in _undividable(load, generators)]
    if undividable:
        raise ValueError("; ".join(undividable))
    rates = [None if steps is None else steps / RATE_STEPS for steps in _divided(_steps(load), generators)]
    parts = zip(_divided(load.connections, generators), _divided(load.requests, generators), rates, strict=True)
    return tuple(
        load.model_copy(update={"connections": connections, "requests": requests, "rate": rate, "processes": 1})
        for connections, requests, rate in parts
    )


def warm_up(load: Load) -> Load:
    """The same load for the time of its warm-up, with nothing recorded."""
    return load.model_copy(update={"duration_s": load.warmup_s, "requests": None, "histogram": False})


def objections(tool: Tool, load: Load, generators: int) -> tuple[Objection, ...]:
    """What so many generators of `tool` cannot honour of `load`, its warm-up included; empty where they can carry it."""
    undividable = tuple(_undividable(load, generators)) if generators > 1 else ()
    if undividable:
        return undividable
    found: dict[tuple[str, str], Objection] = {}
    for part in shares(load, generators):
        for objection in _of_one(tool, part):
            share = f" (one of {generators} generators has {_said(part)})" if generators > 1 else ""
            said = Objection(objection.field, objection.why + share)
            found.setdefault((objection.field, objection.why), said)
    return tuple(found.values())


def _of_one(tool: Tool, load: Load) -> Iterator[Objection]:
    measured = tool.objections(load)
    yield from measured
    if load.warmup_s:
        for objection in tool.objections(warm_up(load).model_copy(update={"histogram": load.histogram})):
            if objection.field == "duration_s":
                yield Objection("warmup_s", objection.why)
            elif objection not in measured:
                yield Objection(objection.field, f"in the warm-up, {objection.why}")


def _undividable(load: Load, generators: int) -> Iterator[Objection]:
    if load.rate is not None and load.rate != round(load.rate * RATE_STEPS) / RATE_STEPS:
        yield Objection("rate", f"divided among generators in thousandths of a request per second, not {load.rate!r}")
    for name, amount in (("connections", load.connections), ("requests", load.requests), ("rate", _steps(load))):
        if amount is not None and amount < generators:
            found = load.rate if name == "rate" else amount
            yield Objection(name, f"{found:g} leave one of {generators} generators without any")


def _steps(load: Load) -> int | None:
    return None if load.rate is None else round(load.rate * RATE_STEPS)


def _divided(total: int | None, parts: int) -> list[int | None]:
    if total is None:
        return [None] * parts
    each, left = divmod(total, parts)
    return [each + (i < left) for i in range(parts)]


def _said(part: Load) -> str:
    said = [units.counted(part.connections, "connection")]
    if part.requests is not None:
        said.append(units.counted(part.requests, "request"))
    if part.rate is not None:
        said.append(f"{part.rate:g} requests/s")
    return ", ".join(said)
