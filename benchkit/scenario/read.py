"""Reading a scenario, by its name or file, into the validated experiment at one scale.

Fields that depend on each other are validated here: design, controls, claims, profile pass, roles.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import get_args

from pydantic import BaseModel

from benchkit.document import Document, Origin, Origins, SourceMap, parse_document, read_document
from benchkit.errors import InputError, raise_faults, suggestion
from benchkit.files import shipped
from benchkit.loadtools.registry import TOOLS
from benchkit.models import Scale
from benchkit.models.base import Frozen, Levels, Name, cell_id
from benchkit.models.claims import CellPair
from benchkit.models.metrics import CLAIM_METRICS, METRICS, component_metric
from benchkit.models.request import without_secrets
from benchkit.scenario.cells import Factors, combinations, level_faults, typed_cell, validate_generators
from benchkit.scenario.experiment import COMMAND_LINE, Experiment, read_tunings
from benchkit.scenario.model import LOAD_ROLE, Scenario
from benchkit.scenario.trial_order import CELLS_OF_ABBA
from benchkit.validation import Location

MAX_TRIALS = 200_000
"""Largest number of trials of a run; at two seconds each, they take five days."""

ANY_SCALE = " at any scale"
"""Scope of levels, in messages: a claim may name a level of another scale, and is then not testable at this one."""

SCALES: tuple[Scale, ...] = get_args(Scale)
DEFAULT_SCALE: Scale = "lab"
WITH_PROFILES, WITH_TRACES = "profile={}", "trace={}"
"""Settings behind `--profile` and `--trace`: each adds a pass, and keeps the fields that the scenario gives it."""
FIXED = ("name", "title", "question", "source", "stacks", "scales")
"""Fields that all scales of a scenario share."""


def validate_scenario(scenario: Scenario, document: Document, cells: Sequence[Levels], factors: Factors) -> None:
    """Check what needs no typed cells. Raises InputError naming file, line and field of every fault."""
    pairs: list[tuple[Location, CellPair | None]] = [(("answer",), scenario.answer)]
    for i, claim in enumerate(scenario.claims):
        pairs += [(("claims", i, "ratio"), claim.ratio), (("claims", i, "relative_to"), claim.relative_to)]
    named = [
        *((("exclude", i), levels) for i, levels in enumerate(scenario.exclude)),
        *((("differs", i, "cells"), difference.cells) for i, difference in enumerate(scenario.differs)),
        *((("published", i, "cell"), published.cell) for i, published in enumerate(scenario.published)),
        *(((*place, side), getattr(pair, side)) for place, pair in pairs if pair is not None for side in ("of", "to")),
    ]
    raise_faults(
        (
            *_design_faults(scenario, document, cells),
            *_until_faults(scenario, document),
            *_tool_faults(scenario, document),
            *_pass_faults(scenario, document),
            *chain.from_iterable(level_faults(levels, place, document, factors, ANY_SCALE) for place, levels in named),
            *_role_faults(scenario, document),
            *_metric_faults(scenario, document),
            *_figure_faults(scenario, document),
        )
    )


def _design_faults(scenario: Scenario, document: Document, cells: Sequence[Levels]) -> Iterator[str]:
    for i, wanted in enumerate(scenario.control):
        if not any(wanted.items() <= levels.items() for levels in cells):
            message = f"no cell has {cell_id(wanted)}; {suggestion(cell_id(wanted), map(cell_id, cells))}"
            yield document.fault(("control", i), message)
    compared = len(cells) + sum(map(scenario.has_control, cells))
    if scenario.design == "abba" and compared != CELLS_OF_ABBA:
        message = f"abba compares two cells; there are {compared}, controls included; use blocks"
        yield document.fault(("design",), message)
    of_passes = sum(2 * each.blocks * len(cells) for each in scenario.passes.values())
    trials = compared * scenario.blocks * (2 if scenario.design == "abba" else 1) + of_passes
    if trials > MAX_TRIALS:
        message = (
            f"these are {trials:,} trials of {len(cells):,} cells; allowed: up to {MAX_TRIALS:,}; use fewer blocks"
        )
        yield document.fault(("blocks",), message)


def _until_faults(scenario: Scenario, document: Document) -> Iterator[str]:
    until = scenario.until
    if until is None:
        return
    if scenario.design == "sequential":
        message = "not allowed in a sequential design, which completes one cell after the other"
        yield document.fault(("until",), message)
    if until.min_blocks > scenario.blocks:
        message = (
            f"needs at least {until.min_blocks} blocks, but blocks is {scenario.blocks}; "
            "write `until: null` at such a scale"
        )
        yield document.fault(("until",), message)
    yield from (
        document.fault(("until", "metrics", i), f"no metric {metric!r}; {suggestion(metric, METRICS)}")
        for i, metric in enumerate(until.metrics)
        if metric not in METRICS
    )


def _role_faults(scenario: Scenario, document: Document) -> Iterator[str]:
    if LOAD_ROLE not in scenario.roles:
        yield document.fault(("roles",), f"no role {LOAD_ROLE!r} to generate the load")
    for i, claim in enumerate(scenario.claims):
        for role in claim.needs:
            if role not in scenario.roles:
                message = f"no role {role!r}; {suggestion(role, scenario.roles)}"
                yield document.fault(("claims", i, "needs", role), message)


def _tool_faults(scenario: Scenario, document: Document) -> Iterator[str]:
    for name, fields in scenario.tools.items():
        if name not in TOOLS:
            yield document.fault(("tools", name), f"no load tool {name!r}; {suggestion(name, TOOLS)}")
        if "tool" in fields:
            message = "not allowed here; name the tool in load, and only its fields here"
            yield document.fault(("tools", name, "tool"), message)


def _pass_faults(scenario: Scenario, document: Document) -> Iterator[str]:
    services = scenario.service_names
    for kind, options in scenario.passes.items():
        for i, name in enumerate(options.services or ()):
            if name not in services:
                message = f"no stack has a service {name!r}; {suggestion(name, services)}"
                yield document.fault((kind, "services", i), message)
        if options.duration_s is not None and options.duration_s < options.needed_s:
            message = f"found {options.duration_s:g}; a {kind} needs a window of at least {options.needed_s:g} s"
            yield document.fault((kind, "duration_s"), message)


def _metric_faults(scenario: Scenario, document: Document) -> Iterator[str]:
    metrics: list[tuple[Location, str]] = [
        (("claims", i, "metric"), claim.metric) for i, claim in enumerate(scenario.claims)
    ]
    if scenario.answer is not None:
        metrics.append((("answer", "metric"), scenario.answer.metric))
    for location, metric in metrics:
        if (component := component_metric(metric)) is not None:
            if component.service not in scenario.service_names:
                allowed = suggestion(component.service, scenario.service_names)
                yield document.fault(location, f"no service {component.service!r}; {allowed}")
        elif metric not in METRICS and metric not in CLAIM_METRICS:
            yield document.fault(location, f"no metric {metric!r}; {suggestion(metric, (*METRICS, *CLAIM_METRICS))}")


def _figure_faults(scenario: Scenario, document: Document) -> Iterator[str]:
    for i, published in enumerate(scenario.published):
        for (field, name), allowed in published.unknown.items():
            yield document.fault(("published", i, field, name), f"no such figure; {suggestion(name, allowed)}")


def _quota_faults(experiment: Experiment) -> Iterator[str]:
    serving = {service.options.role for cell in experiment.cells for service in cell.services}
    for name, role in experiment.scenario.roles.items():
        if role.quota is not None and name not in serving:
            message = f"a quota limits services, and no service has the role {name!r}"
            yield experiment.document.fault(("roles", name, "quota"), message)


class _Scales(Frozen):
    """The fields that each scale sets; their contents are checked once merged with the rest."""

    paper: dict[Name, object] | None = None
    lab: dict[Name, object] | None = None
    smoke: dict[Name, object] | None = None


def find_scenario(name: str) -> Path:
    """Return the file of a scenario: a path as given, or the shipped scenario of that name. Raises InputError."""
    path = Path(name)
    if path.suffix in {".yaml", ".yml"} or path.is_file():
        return path
    folder = shipped("scenarios")
    names = sorted(file.stem for file in folder.glob("*.yaml"))
    if name not in names:
        raise InputError(
            f"no scenario {name!r}",
            why=suggestion(name, names),
            hint="name a shipped scenario, or give the path of a .yaml file",
        )
    return folder / f"{name}.yaml"


def read_experiment(name: str, scale: Scale = DEFAULT_SCALE, settings: Sequence[str] = ()) -> Experiment:
    """Read the scenario `name` at `scale`, with fields overridden by `--set` settings (`load.connections=64`).

    Checks everything that needs no host. Raises InputError naming file, line and field of each fault.
    """
    file = read_document(find_scenario(name))
    document = at_scale(file, scale)
    document = _with_settings(document, settings)
    return _experiment(document, scale, settings, _levels(file, document))


def _with_settings(document: Document, settings: Sequence[str]) -> Document:
    for setting in settings:
        document = document.overridden(_setting(setting, document))
    return document


def vary_experiment(experiment: Experiment, changes: Mapping[str, object], origin: str) -> Experiment:
    """Return the experiment with fields of its scenario changed; errors name `origin` as their source.

    Raises InputError.
    """
    document = experiment.document.overridden(_unmapped(changes, origin))
    return _experiment(document, experiment.scale, experiment.settings)


def experiment_of_options(data: Mapping[str, object], settings: Sequence[str] = ()) -> Experiment:
    """Return the experiment of a scenario made of options of the command line, with `--set` settings.

    Raises InputError.
    """
    return _experiment(_with_settings(_unmapped(data, COMMAND_LINE), settings), DEFAULT_SCALE, settings)


def stored_experiment(
    data: Mapping[str, object], source: str, scale: Scale, settings: Sequence[str] = ()
) -> Experiment:
    """Return the experiment of a stored run.

    `data` is its scenario with scale and settings applied, `source` the file that it came from. Raises InputError.
    """
    document = _unmapped(data, source)
    return _experiment(document, scale, settings)


class _Named(BaseModel):
    """The name in a file whose other fields may be anything."""

    name: Name


def scenario_name(scenario: str) -> str:
    """Return the name of a scenario, from a file whose other fields are not checked. Raises InputError."""
    return read_document(find_scenario(scenario)).validated(_Named).name


def scales_of(name: str) -> tuple[Scale, ...]:
    """Return the scales that a scenario has. Raises InputError."""
    document = read_document(find_scenario(name))
    if "scales" not in document.data:
        return (DEFAULT_SCALE,)
    scales = document.at("scales").validated(_Scales)
    return tuple(scale for scale in SCALES if getattr(scales, scale) is not None)


def at_scale(document: Document, scale: Scale) -> Document:
    """Return the document with fields overridden by `scales.<scale>`. Raises InputError."""
    if "scales" not in document.data:
        if scale != DEFAULT_SCALE:
            raise InputError(document.fault((), f"has no scales, so there is no scale {scale!r}; omit --scale"))
        return document
    scales = document.at("scales").validated(_Scales)
    overrides = getattr(scales, scale)
    if overrides is None:
        existing = ", ".join(s for s in SCALES if getattr(scales, s) is not None)
        raise InputError(document.fault(("scales",), f"has no scale {scale!r}; it has: {existing}"))
    message = "is the same at every scale; set it at the top level"
    raise_faults(document.fault(("scales", scale, key), message) for key in overrides if key in FIXED)
    return document.without("scales").overridden(document.at("scales", scale))


def _experiment(
    document: Document, scale: Scale, settings: Sequence[str], factors: Factors | None = None
) -> Experiment:
    """Check the document and type its cells; every experiment is made here.

    `factors` has the levels at any scale; None: they are unknown.
    """
    scenario = document.validated(Scenario)
    cells = combinations(scenario, document)
    validate_scenario(scenario, document, cells, dict.fromkeys(scenario.factors) if factors is None else factors)
    experiment = Experiment(
        scenario=scenario,
        scale=scale,
        cells=tuple(typed_cell(levels, scenario, document) for levels in cells),
        tuning=read_tunings(scenario, document),
        document=document,
        settings=tuple(settings),
    )
    validate_generators(experiment, scenario.roles[LOAD_ROLE].hosts)
    raise_faults(_quota_faults(experiment))
    return experiment


def _levels(file: Document, document: Document) -> dict[str, list[object]]:
    """Return the levels of each factor at any scale of the file and as overridden by `--set`; not validated."""
    parts = [file, *(file.at("scales", scale) for scale in file.data.get("scales") or ()), document]
    levels: dict[str, list[object]] = {}
    for part in parts:
        factors = (part.data or {}).get("factors")
        for name, values in factors.items() if isinstance(factors, dict) else ():
            levels.setdefault(name, []).extend(values if isinstance(values, list) else ())
    return levels


def _setting(setting: str, document: Document) -> Document:
    """Return a setting `a.b=value` as a document of its own; the value is read as YAML."""
    path, equals, text = setting.partition("=")
    keys = path.split(".")
    source = f"--set {path}" if "headers" in keys else f"--set {setting}"
    source = {WITH_PROFILES: "--profile", WITH_TRACES: "--trace"}.get(setting, source)
    if not equals or not all(keys):
        raise InputError("not of the form field=value", where=source, hint="for example --set load.connections=64")
    if keys[0] not in document.data and keys[0] not in Scenario.model_fields:
        raise InputError(f"no field {keys[0]!r}", where=source, why=suggestion(keys[0], Scenario.model_fields))
    data: object = parse_document(f"value: {text}", source).data["value"]
    for key in reversed(keys[1:]):
        data = {key: data}
    if without_secrets({keys[0]: data}) != {keys[0]: data}:
        hint = "name an environment variable: --set 'load.headers.Authorization={env: TOKEN}'"
        raise InputError("a secret header in clear", where=f"--set {path}", why="settings are stored", hint=hint)
    return _unmapped({keys[0]: data}, source)


def _unmapped(data: Mapping[str, object], source: str) -> Document:
    """Return data whose values all have the same origin, without lines."""
    return Document(dict(data), SourceMap(Origins(Origin(source, None))))
