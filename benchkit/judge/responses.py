"""Comparison of the responses of cells: their kinds, and their status, header bytes, body bytes and bodies.

The evidence is the probe of each trial, one request to its stack before the load. Servers that send different things do
different work, and a ratio of their rates does not compare the servers alone. Bodies of one kind may differ in an id, a
date or the rows of a table: this is stated with the ratio. Responses of different kinds are other work. A scenario that
intends a difference declares the reason (`differs`), which is then stated with every such ratio.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import pandas as pd

from benchkit.models.base import Frozen, level_texts
from benchkit.models.design import Difference, Trait
from benchkit.models.run import Manifest
from benchkit.models.trial import ProbeRecord

TRAITS: tuple[Trait, ...] = get_args(Trait)

COLUMNS: Mapping[Trait, str] = {
    "status": "probe_status",
    "header_bytes": "probe_header_bytes",
    "body_bytes": "probe_body_bytes",
    "body": "probe_body_sha256",
}
"""Column of `trials` with each trait."""

UNDECLARED = "if that is meant, declare it: --differs, or differs in the scenario"

_SHOWN = 3
"""Number of values from which a range is shown instead."""

SHORT_BYTES = 40
"""Difference in bytes that bodies of one kind may always have: a UUID has 36 characters, a date up to 35."""

Answers = Mapping[Trait, frozenset[str]]
"""All values of each trait in the answers to a cell's probes; empty for an unknown trait."""


@dataclass(frozen=True)
class ResponseKind:
    """Status, media type and size of a response."""

    status: int
    media_type: str | None
    """None: not stated, and not compared."""
    body_bytes: float
    body_sha256: str | None = None
    """None: unknown."""

    @classmethod
    def of_probe(cls, probe: ProbeRecord) -> ResponseKind:
        """Return the kind of a response to a probe."""
        return cls(probe.status, probe.media_type, probe.body_bytes, probe.body_sha256)

    def differences(self, other: ResponseKind, factor: float, declared: Collection[Trait]) -> Iterator[str]:
        """Yield each difference of the kinds as a clause with both values, apart from traits that are declared.

        Sizes may differ by `factor` or `SHORT_BYTES`; an empty body is a kind of its own. Media types and sizes of
        equal bodies, and of bodies declared to differ, are not compared.
        """
        if self.status != other.status and "status" not in declared:
            yield f"status {self.status} against {other.status}"
        if (
            "body" in declared
            or "body_bytes" in declared
            or (self.body_sha256 and self.body_sha256 == other.body_sha256)
        ):
            return
        if self.media_type and other.media_type and self.media_type != other.media_type:
            yield f"a body of {self.media_type} against {other.media_type}"
        less, more = sorted((self.body_bytes, other.body_bytes))
        if less != more and (less == 0 or more > max(less * factor, less + SHORT_BYTES)):
            yield f"{self.body_bytes:g} bytes of body against {other.body_bytes:g}"


class ResponseMismatch(Frozen):
    """A trait in which the answers of two compared cells differ."""

    trait: Trait
    cell_id: str
    baseline: str
    seen: tuple[str, ...]
    """All values in the answers of the cell."""
    baseline_seen: tuple[str, ...]
    declared_reason: str | None = None
    """Reason that the scenario declares; None: it declares none."""

    @property
    def is_serious(self) -> bool:
        """False where the scenario declares it, or where bodies with a common length vary within both cells."""
        both_vary = len(self.seen) > 1 and len(self.baseline_seen) > 1
        is_alike = self.trait == "body" or (
            self.trait == "body_bytes" and not set(self.seen).isdisjoint(self.baseline_seen)
        )
        return self.declared_reason is None and not (both_vary and is_alike)

    @property
    def comment(self) -> str:
        """Declared reason, or how to declare one, in brackets after a blank; empty where neither is needed."""
        if self.declared_reason is not None:
            return f" (declared by the scenario: {self.declared_reason})"
        return f" ({UNDECLARED})" if self.is_serious else ""

    @property
    def text(self) -> str:
        """Difference in a few words: `1600 bytes of body against 12`."""
        one, other = _listed(self.seen), _listed(self.baseline_seen)
        match self.trait:
            case "status":
                return f"status {one} against {other}"
            case "header_bytes":
                return f"{one} bytes of headers against {other}"
            case "body_bytes":
                return f"{one} bytes of body against {other}"
            case "body":
                is_fixed = len(self.seen) == len(self.baseline_seen) == 1
                return "another body of the same length" if is_fixed else "bodies of the same length that vary"


def answers_by_cell(trials: pd.DataFrame) -> dict[str, Answers]:
    """Return the answers to the probes of each cell, from rows of `trials` of one run."""
    columns = {trait: column for trait, column in COLUMNS.items() if column in trials}
    seen: dict[str, dict[Trait, frozenset[str]]] = {}
    for trait, column in columns.items():
        known = trials[["cell_id", column]].dropna().drop_duplicates()
        for cell_id, value in zip(known["cell_id"], known[column], strict=True):
            of_cell = seen.setdefault(str(cell_id), dict.fromkeys(TRAITS, frozenset()))
            of_cell[trait] |= {str(int(value)) if trait != "body" else str(value)}
    return dict(seen)


def response_mismatches(
    cell_id: str, baseline: str, answers: Mapping[str, Answers], baseline_answers: Mapping[str, Answers]
) -> tuple[ResponseMismatch, ...]:
    """Return the traits in which the answers of two cells differ, including traits that vary within one of them.

    Bodies of different length are reported by their length alone. `baseline_answers` are of another run, if the
    baseline is a cell there. Cells that were never probed have no mismatch.
    """
    of_cell, of_baseline = answers.get(cell_id, {}), baseline_answers.get(baseline, {})
    found: list[ResponseMismatch] = []
    for trait in TRAITS:
        own, other = of_cell.get(trait, frozenset()), of_baseline.get(trait, frozenset())
        implied = trait == "body" and any(each.trait == "body_bytes" for each in found)
        if own and other and len(own | other) > 1 and not implied:
            found.append(
                ResponseMismatch(
                    trait=trait, cell_id=cell_id, baseline=baseline, seen=_ordered(own), baseline_seen=_ordered(other)
                )
            )
    return tuple(found)


def with_declared_reasons(found: Iterable[ResponseMismatch], manifest: Manifest) -> tuple[ResponseMismatch, ...]:
    """Return the mismatches, each with the first reason that the scenario of the run declares."""

    def reason(mismatch: ResponseMismatch) -> str | None:
        declared = _declared_between(manifest, (mismatch.cell_id, mismatch.baseline))
        return next((" ".join(each.why.split()) for each in declared if mismatch.trait in each.what), None)

    return tuple(each.model_copy(update={"declared_reason": reason(each)}) for each in found)


def declared_traits(manifest: Manifest, cell_ids: Collection[str]) -> frozenset[Trait]:
    """Return the traits that the scenario of a run declares to differ between these cells."""
    return frozenset(trait for each in _declared_between(manifest, cell_ids) for trait in each.what)


def varying_traits(scenario: Mapping[str, Any], levels: Mapping[str, str]) -> frozenset[Trait]:
    """Return the traits that a stored scenario declares to vary within the cell with these levels."""
    return frozenset(trait for each in _declared(scenario, [levels]) if each.varies for trait in each.what)


def _declared_between(manifest: Manifest, cell_ids: Collection[str]) -> Iterator[Difference]:
    levels = [level_texts(cell.levels) for cell in manifest.cells if cell.cell_id in cell_ids]
    return _declared(manifest.scenario, levels)


def _declared(scenario: Mapping[str, Any], cells: Sequence[Mapping[str, str]]) -> Iterator[Difference]:
    """Yield the differences that a stored scenario declares of one of these cells, given by their levels."""
    for each in map(Difference.model_validate, scenario.get("differs") or ()):
        if any(level_texts(each.cells).items() <= levels.items() for levels in cells):
            yield each


def mismatch_notes(found: Sequence[ResponseMismatch]) -> tuple[str, ...]:
    """Return notes on a ratio of cells with different answers: one sentence for each comment on them."""
    by_comment: dict[str, list[str]] = {}
    for each in found:
        by_comment.setdefault(each.comment, []).append(each.text)
    return tuple(f"different answers: {'; '.join(texts)}{comment}" for comment, texts in by_comment.items())


def _ordered(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(values, key=lambda value: (len(value), value)))


def _listed(values: Sequence[str]) -> str:
    """Return one or two values, or the range of more."""
    return " or ".join(values) if len(values) < _SHOWN else f"{values[0]} to {values[-1]}"
