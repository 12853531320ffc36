"""A run as the store keeps it: the manifest, and a trial's row."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from benchkit.models.base import Frozen

SCHEMA_VERSION = 1
"""Version of the store's layout and tables; a newer one is refused, an older one is read."""

TrialKind = Literal["measure", "control", "profile"]
RunStatus = Literal["running", "done", "failed", "interrupted"]


class CellRecord(Frozen):
    """One combination of levels, as planned for the hosts of this run."""

    cell_id: str
    levels: Mapping[str, str | int | float | bool]
    unsupported: str | None = Field(default=None, description="why these hosts cannot carry the cell")


class HostRecord(Frozen):
    """A host of the run and what it was at the start; no secrets, no key paths."""

    name: str
    roles: tuple[str, ...]
    facts: Mapping[str, Any]


class ControllerRecord(Frozen):
    """The process that carries a run out, and where it runs."""

    machine: str | None = Field(default=None, description="boot id of its machine; None: not known")
    cpus: tuple[int, ...] = Field(default=(), description="CPUs that it may run on during trials; empty: not known")


class Manifest(Frozen):
    """`manifest.json` of a run: what was asked, by whom, on what."""

    schema_version: int = SCHEMA_VERSION
    run_id: str
    scenario: Mapping[str, Any] = Field(description="the scenario as run: scale and --set applied")
    source: str = Field(default="", description="the scenario's file; what it names beside it is looked for there")
    scale: str
    settings: tuple[str, ...] = Field(default=(), description="what `--set` laid over the scenario")
    seed: int
    blocks: int
    cells: tuple[CellRecord, ...]
    hosts: tuple[HostRecord, ...]
    versions: Mapping[str, str] = Field(description="of benchkit, Python, tools, backends and nginx, by name")
    controller: ControllerRecord | None = None
    thresholds: Mapping[str, float] = Field(default_factory=dict, description="of the checks that judge its trials")
    notices: tuple[str, ...] = Field(default=(), description="what the plan said: not isolated, not applied, …")
    started_at: datetime
    ended_at: datetime | None = None
    status: RunStatus = "running"
