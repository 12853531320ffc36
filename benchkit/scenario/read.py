"""Reading a scenario, by its name or file, into the validated experiment at one scale."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import get_args

from pydantic import BaseModel

from benchkit.document import Document, parse_document, plain_document, read_document
from benchkit.errors import InputError, suggestion
from benchkit.files import shipped
from benchkit.models import Scale
from benchkit.models.base import Frozen, Name
from benchkit.scenario.cells import typed_cell, validate_generators
from benchkit.scenario.checks import Factors, combinations, factor_faults, scenario_faults
from benchkit.scenario.experiment import COMMAND_LINE, Experiment, read_tunings
from benchkit.scenario.model import LOAD_ROLE, Scenario

SCALES: tuple[Scale, ...] = get_args(Scale)
DEFAULT_SCALE: Scale = "lab"
WITH_PROFILES, WITH_TRACES = "profile={}", "trace={}"
"""Settings behind `--profile` and `--trace`: each adds a pass, and keeps the fields that the scenario gives it."""
FIXED = ("name", "title", "question", "source", "stacks", "scales")
"""Fields that all scales of a scenario share."""


class _Scales(Frozen):
    """The fields that each scale sets; their contents are checked once merged with the rest."""

    paper: dict[Name, object] | None = None
    lab: dict[Name, object] | None = None
    smoke: dict[Name, object] | None = None

    @property
    def existing(self) -> tuple[Scale, ...]:
        """Scales that the scenario has."""
        return tuple(scale for scale in SCALES if getattr(self, scale) is not None)


class _Named(BaseModel):
    """The name in a file whose other fields may be anything."""

    name: Name


def read_experiment(name: str, scale: Scale = DEFAULT_SCALE, settings: Sequence[str] = ()) -> Experiment:
    """Read the scenario `name` at `scale`, with fields overridden by `--set` settings (`load.connections=64`).

    Checks everything that needs no host. Raises InputError naming file, line and field of each fault.
    """
    path = find_scenario(name)
    file = read_document(path)
    document = _at_scale(file, scale)
    document = _with_settings(document, settings)
    parts = [file.data, *(file.data.get("scales") or {}).values(), document.data]
    levels: dict[str, list[object]] = {}
    for factors in (part.get("factors") for part in parts if isinstance(part, dict)):
        for factor, values in factors.items() if isinstance(factors, dict) else ():
            levels.setdefault(factor, []).extend(values if isinstance(values, list) else ())
    return _experiment(document, scale, settings, levels)


def _experiment(
    document: Document, scale: Scale, settings: Sequence[str], any_scale: Factors | None = None
) -> Experiment:
    """Check the document and type its cells; every experiment is made here.

    `any_scale` has the levels at any scale; None: they are unknown.
    """
    scenario = document.validated(Scenario)
    document.source.require(factor_faults(scenario))
    cells = combinations(scenario)
    named = dict.fromkeys(scenario.factors) if any_scale is None else any_scale
    document.source.require(scenario_faults(scenario, cells, named))
    experiment = Experiment(
        scenario=scenario,
        scale=scale,
        cells=tuple(typed_cell(levels, scenario, document) for levels in cells),
        tuning=read_tunings(scenario, document),
        document=document,
        settings=tuple(settings),
    )
    validate_generators(experiment, scenario.roles[LOAD_ROLE].hosts)
    serving = {service.options.role for cell in experiment.cells for service in cell.services}
    document.source.require(
        (("roles", name, "quota"), f"a quota limits services, but no service has the role {name!r}")
        for name, role in scenario.roles.items()
        if role.quota is not None and name not in serving
    )
    return experiment


def experiment_of_options(data: Mapping[str, object], settings: Sequence[str] = ()) -> Experiment:
    """Return the experiment of a scenario made of options of the command line, with `--set` settings.

    Raises InputError.
    """
    return _experiment(_with_settings(plain_document(data, COMMAND_LINE), settings), DEFAULT_SCALE, settings)


def stored_experiment(
    data: Mapping[str, object], source: str, scale: Scale, settings: Sequence[str] = ()
) -> Experiment:
    """Return the experiment of a stored run.

    `data` is its scenario with scale and settings applied, `source` the file that it came from. Raises InputError.
    """
    return _experiment(plain_document(data, source), scale, settings)


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


def scenario_name(scenario: str) -> str:
    """Return the name of a scenario, from a file whose other fields are not checked. Raises InputError."""
    return read_document(find_scenario(scenario)).validated(_Named).name


def scales_of(name: str) -> tuple[Scale, ...]:
    """Return the scales that a scenario has. Raises InputError."""
    document = read_document(find_scenario(name))
    return document.at("scales").validated(_Scales).existing if "scales" in document.data else (DEFAULT_SCALE,)


def _at_scale(document: Document, scale: Scale) -> Document:
    """Return the document with fields overridden by `scales.<scale>`. Raises InputError."""
    if "scales" not in document.data:
        if scale != DEFAULT_SCALE:
            raise InputError(document.fault((), f"has no scales, so there is no scale {scale!r}; omit --scale"))
        return document
    existing = document.at("scales").validated(_Scales).existing
    if scale not in existing:
        raise InputError(document.fault(("scales",), f"has no scale {scale!r}; it has: {', '.join(existing)}"))
    overrides = document.at("scales", scale)
    message = "is the same at every scale; set it at the top level"
    document.source.require((("scales", scale, key), message) for key in overrides.data if key in FIXED)
    fields = {key: value for key, value in document.data.items() if key != "scales"}
    return Document(fields, document.source).overridden(overrides)


def _with_settings(document: Document, settings: Sequence[str]) -> Document:
    """Return the document with the fields that settings `a.b=value` override; values are read as YAML."""
    for setting in settings:
        path, equals, text = setting.partition("=")
        keys = path.split(".")
        source = f"--set {path}" if "headers" in setting else f"--set {setting}"
        source = {WITH_PROFILES: "--profile", WITH_TRACES: "--trace"}.get(setting, source)
        if not equals or not all(keys):
            raise InputError("not of the form field=value", where=source, hint="for example --set load.connections=64")
        if keys[0] not in document.data and keys[0] not in Scenario.model_fields:
            raise InputError(f"no field {keys[0]!r}", where=source, why=suggestion(keys[0], Scenario.model_fields))
        data: object = parse_document(f"value: {text}", source).data["value"]
        for key in reversed(keys[1:]):
            data = {key: data}
        document = document.overridden(plain_document({keys[0]: data}, source))
    return document
