"""What checks look at: a trial with all that is stored of it, and the trials of a run beside each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pandas as pd

from benchkit.analysis.verdicts.trial_telemetry import TrialTelemetry
from benchkit.models.levels import STACK
from benchkit.models.rows import TrialRow
from benchkit.models.run import ControllerRecord, Manifest
from benchkit.models.trial import TrialRecord, WatchRecord

Facts = Mapping[str, Any]
"""The facts of a host, as the manifest has them, with what the run set laid over them."""


@dataclass(frozen=True, eq=False)
class Evidence:
    """One trial."""

    record: TrialRecord
    row: TrialRow
    """Its row in `trials`; absent is None."""
    telemetry: TrialTelemetry = field(default_factory=TrialTelemetry)
    facts: Mapping[str, Facts] = field(default_factory=dict)
    """By host."""
    notes: Mapping[str, str] = field(default_factory=dict)
    """What the tool's output says against its own figures: message by code."""
    requested_metrics: frozenset[str] = frozenset()
    """The metrics that the scenario asks about."""
    scenario: Mapping[str, Any] = field(default_factory=dict)
    """As it was run."""
    controller: ControllerRecord | None = None
    """The process that carried it out; None: not known."""

    @cached_property
    def window_s(self) -> float:
        """How long the measured window was."""
        return self.record.window_s

    @property
    def closed_loop(self) -> bool:
        """Whether the load goes as fast as answers come: at no set rate."""
        return self.record.load.rate is None

    @cached_property
    def entry(self) -> str:
        """The service that the load goes to."""
        stacks = self.scenario.get("stacks") or {}
        stack = stacks.get(self.record.levels.get(STACK)) or (next(iter(stacks.values())) if len(stacks) == 1 else None)
        return str(stack["entry"]) if stack else self.record.services[-1].name

    @cached_property
    def server_hosts(self) -> tuple[str, ...]:
        """The hosts of its services."""
        return tuple(dict.fromkeys(service.host for service in self.record.services))

    @cached_property
    def load_hosts(self) -> tuple[str, ...]:
        """The hosts of its generators."""
        return tuple(dict.fromkeys(generator.host for generator in self.record.generators))

    @cached_property
    def hosts(self) -> tuple[str, ...]:
        """All of its hosts."""
        return tuple(dict.fromkeys((*self.server_hosts, *self.load_hosts)))

    def watch(self, host: str) -> WatchRecord | None:
        """How the host was watched; None: it was not."""
        return next((each for each in self.record.watched if each.host == host), None)

    def number(self, column: str) -> float | None:
        """A figure of its row."""
        value = getattr(self.row, column)
        return None if value is None or value != value else float(value)  # noqa: PLR0124 - NaN differs from itself


@dataclass(frozen=True, eq=False)
class RunEvidence:
    """A run: what tables have of it."""

    manifest: Manifest
    trials: pd.DataFrame
    """Rows of `trials`, with factors."""
    hosts: pd.DataFrame
    """Rows of `hosts`: what each host was at the start, and what it was found to be later."""


def requested_metrics(scenario: Mapping[str, Any]) -> frozenset[str]:
    """The metrics that a stored scenario asks about: those of its claims, and those that may end it early."""
    claims = (claim.get("metric", "rps") for claim in scenario.get("claims") or ())
    until = scenario.get("until") or {}
    return frozenset({"rps", *claims, *(until.get("metrics") or ())})
