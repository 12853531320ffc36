"""Evidence that checks read: everything stored about one trial, and the tables of a whole run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Literal
from urllib.parse import urlsplit

import pandas as pd

from benchkit.judge.trial_telemetry import TrialTelemetry
from benchkit.models.design import design_of, stack_of
from benchkit.models.facts import RecordedFacts
from benchkit.models.rows import ClassRow, SliceRow, TrialRow
from benchkit.models.run import ControllerRecord, Manifest
from benchkit.models.trial import TrialRecord, WatchRecord
from benchkit.stats.samples import SEARCH_KINDS
from benchkit.store.parquet_files import empty_frame

Severity = Literal["suspect", "invalid"]
"""`suspect`: shown, marked and ranked with a warning; `invalid`: shown, never ranked or used in a ratio."""


@dataclass(frozen=True, eq=False)
class Evidence:
    """All stored data of one trial."""

    record: TrialRecord
    row: TrialRow
    """Its row in `trials`; absent values are None."""
    slices: Sequence[SliceRow] = ()
    """Its rows in `slices`, in order; none in other designs."""
    classes: Sequence[ClassRow] = ()
    """Its rows in `classes`; none without classes of requests."""
    telemetry: TrialTelemetry = field(default_factory=TrialTelemetry)
    facts: Mapping[str, RecordedFacts] = field(default_factory=dict)
    """Facts of each host at the start, updated with the settings that the run applied."""
    notes: Mapping[str, str] = field(default_factory=dict)
    """Known defects of the tool in this output: message by code."""
    requested_metrics: frozenset[str] = frozenset()
    """Metrics that the scenario asks about."""
    scenario: Mapping[str, Any] = field(default_factory=dict)
    """The scenario as it was run."""
    controller: ControllerRecord | None = None
    """The process that ran the trial; None: unknown."""

    @cached_property
    def window_s(self) -> float:
        """Length of the measured window."""
        return self.record.window_s

    @property
    def closed_loop(self) -> bool:
        """True if each connection sends its next request when an answer arrives, without a target rate."""
        return self.record.load.rate is None

    @property
    def disturbance(self) -> Severity:
        """Severity of a disturbance from outside, which is independent of the cell under load.

        In a random order it is noise, which the interval of a ratio includes. It invalidates a trial where the order is
        not random, or where a value is judged by itself, as against the objective of a capacity.
        """
        searches = self.record.capacity is not None or self.record.kind in SEARCH_KINDS
        return "invalid" if searches or design_of(self.scenario) == "sequential" else "suspect"

    @cached_property
    def entry(self) -> str | None:
        """Name of the service that the load is sent to; None: unknown, as for a trial measured elsewhere."""
        stack = stack_of(self.scenario, self.record.levels)
        names = [*self.record.external, *(service.name for service in self.record.services)]
        return str(stack["entry"]) if stack else names[-1] if names else None

    @cached_property
    def server_hosts(self) -> tuple[str, ...]:
        """Hosts of its services."""
        return tuple(dict.fromkeys(service.host for service in self.record.services))

    @cached_property
    def load_hosts(self) -> tuple[str, ...]:
        """Hosts of its generators."""
        return tuple(dict.fromkeys(generator.host for generator in self.record.generators))

    def generator_cpus(self, host: str) -> set[int]:
        """Return the CPUs of a host that its generators may use."""
        return {cpu for each in self.record.generators if each.host == host for cpu in each.cpus}

    @cached_property
    def hosts(self) -> tuple[str, ...]:
        """All of its hosts."""
        return tuple(dict.fromkeys((*self.server_hosts, *self.load_hosts)))

    @cached_property
    def shares_unwatched_server(self) -> bool:
        """True if the load goes to a server on the machine of a load host that the trial did not start.

        Its CPU time there cannot be separated from other programs'.
        """
        if not self.record.external:
            return False
        target = urlsplit(self.record.target or "").hostname
        facts = [self.facts_of(host) for host in self.load_hosts]
        own = {address for each in facts for interface in each.interfaces for address in interface.addresses}
        here = self.controller.machine if self.controller else None
        return target in {"localhost", *own, *(each.controller_address for each in facts if each.boot_id == here)}

    def facts_of(self, host: str) -> RecordedFacts:
        """Return the facts of a host; those that are unknown are absent."""
        return self.facts.get(host) or RecordedFacts()

    def watch(self, host: str) -> WatchRecord | None:
        """Return how the host was sampled; None: it was not."""
        return next((each for each in self.record.watched if each.host == host), None)

    def number(self, column: str) -> float | None:
        """Return a numeric value of its row; None where it is absent."""
        value = getattr(self.row, column)
        return None if value is None or value != value else float(value)  # noqa: PLR0124 - NaN differs from itself


@dataclass(frozen=True, eq=False)
class RunEvidence:
    """The tables by which checks compare the trials of a run."""

    manifest: Manifest
    trials: pd.DataFrame
    """Rows of `trials`."""
    hosts: pd.DataFrame
    """Rows of `hosts`: the facts of each host at the start and later."""
    slices: pd.DataFrame = field(default_factory=partial(empty_frame, "slices"))
    """Rows of `slices`; empty where no block is sliced, and while a run goes on."""


def requested_metrics(scenario: Mapping[str, Any]) -> frozenset[str]:
    """Return the metrics that the claims of a stored scenario and its rule for ending early ask about."""
    claims = (claim.get("metric", "rps") for claim in scenario.get("claims") or ())
    until = scenario.get("until") or {}
    return frozenset({"rps", *claims, *(until.get("metrics") or ())})
