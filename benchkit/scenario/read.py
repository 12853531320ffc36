"""Reading a scenario, by its name or file, into the checked experiment at one scale."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import get_args

from pydantic import BaseModel

from benchkit.document import Document, Origin, Origins, SourceMap, parse_document, read_document
from benchkit.errors import InputError, suggestion
from benchkit.files import shipped
from benchkit.models import Scale
from benchkit.models.base import Frozen, Name
from benchkit.models.request import without_secrets
from benchkit.scenario.cell_parts import check_generators
from benchkit.scenario.cells import combinations, typed_cell
from benchkit.scenario.checks import Factors, check_cells, check_scenario
from benchkit.scenario.experiment import Experiment
from benchkit.scenario.model import LOAD_ROLE, Scenario
from benchkit.scenario.tuning import read_tunings

SCALES: tuple[Scale, ...] = get_args(Scale)
DEFAULT_SCALE: Scale = "lab"


class _Scales(Frozen):
    """The fields that each scale sets; their contents are checked once merged with the rest."""

    paper: dict[Name, object] | None = None
    lab: dict[Name, object] | None = None
    smoke: dict[Name, object] | None = None


WITH_PROFILES = "profile={}"
"""Setting behind `--profile`: adds a profile pass and keeps what the scenario says of one."""

FIXED = ("name", "title", "question", "source", "stacks", "scales")
"""Fields that all scales of a scenario share."""


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
    return _experiment(document, experiment.scale, experiment.settings, _any_level(document))


def experiment_of_options(data: Mapping[str, object], options: Origins, settings: Sequence[str] = ()) -> Experiment:
    """Return the experiment of options of the command line, which messages name, with `--set` settings.

    Raises InputError.
    """
    document = _with_settings(Document(dict(data), SourceMap(options)), settings)
    return _experiment(document, DEFAULT_SCALE, settings, _any_level(document))


def stored_experiment(
    data: Mapping[str, object], source: str, scale: Scale, settings: Sequence[str] = ()
) -> Experiment:
    """Return the experiment of a stored run.

    `data` is its scenario with scale and settings applied, `source` the file that it came from. Raises InputError.
    """
    document = _unmapped(data, source)
    return _experiment(document, scale, settings, _any_level(document))


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
    """Return the document with fields overridden by those of `scales.<scale>`. Raises InputError."""
    if "scales" not in document.data:
        if scale != DEFAULT_SCALE:
            raise InputError(document.fault((), f"has no scales, so there is no scale {scale!r}; omit --scale"))
        return document
    scales = document.at("scales").validated(_Scales)
    overrides = getattr(scales, scale)
    if overrides is None:
        existing = ", ".join(s for s in SCALES if getattr(scales, s) is not None)
        raise InputError(document.fault(("scales",), f"has no scale {scale!r}; it has: {existing}"))
    for key in overrides:
        if key in FIXED:
            message = "is the same at every scale; set it at the top level"
            raise InputError(document.fault(("scales", scale, key), message))
    return document.without("scales").overridden(document.at("scales", scale))


def _experiment(document: Document, scale: Scale, settings: Sequence[str], factors: Factors) -> Experiment:
    """Check the document and type its cells; every experiment is made here."""
    scenario = document.validated(Scenario)
    cells = combinations(scenario, document)
    check_scenario(scenario, document, cells, factors)
    experiment = Experiment(
        scenario=scenario,
        scale=scale,
        cells=tuple(typed_cell(levels, scenario, document) for levels in cells),
        tuning=read_tunings(scenario, document),
        document=document,
        settings=tuple(settings),
    )
    check_generators(experiment, scenario.roles[LOAD_ROLE].hosts)
    check_cells(experiment)
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


def _any_level(document: Document) -> Factors:
    """Return the factors of a document whose other scales are unknown."""
    return dict.fromkeys(document.data.get("factors") or ())


def _setting(setting: str, document: Document) -> Document:
    """Return a setting `a.b=value` as a document of its own; the value is read as YAML."""
    path, equals, text = setting.partition("=")
    keys = path.split(".")
    source = "--profile" if setting == WITH_PROFILES else f"--set {path}" if "headers" in keys else f"--set {setting}"
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
