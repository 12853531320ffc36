"""From a scenario's name or file to the experiment at one scale."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from benchkit import resources
from benchkit.document import Document, Origin, parse_document, read_document
from benchkit.errors import InputError, suggestion
from benchkit.models.base import Frozen
from benchkit.models.levels import Name, cell_id
from benchkit.models.scale import Scale
from benchkit.scenario.cells import Cell, expand
from benchkit.scenario.checks import check_scenario
from benchkit.scenario.model import Scenario

SCALES: tuple[Scale, ...] = get_args(Scale)
DEFAULT_SCALE: Scale = "lab"


class _Scales(Frozen):
    """The parts of a scenario that its scales may set; what they hold is checked once laid over the rest."""

    paper: dict[Name, object] | None = None
    lab: dict[Name, object] | None = None
    smoke: dict[Name, object] | None = None


FIXED = ("name", "title", "question", "source", "stacks", "scales")
"""What all scales of a scenario share."""


@dataclass(frozen=True)
class Experiment:
    """A scenario at one scale, with its cells."""

    scenario: Scenario
    scale: Scale
    cells: tuple[Cell, ...]
    document: Document
    settings: tuple[str, ...] = ()
    """What `--set` laid over the scenario's file."""

    @property
    def baseline(self) -> str:
        """The cell that ratios are taken to."""
        given = self.scenario.baseline
        matching = [c.cell_id for c in self.cells if given is not None and given.items() <= c.levels.items()]
        return matching[0] if matching else self.cells[0].cell_id


def find_scenario(name: str) -> Path:
    """The file of a scenario: a path as given, or the shipped scenario of that name. Raises InputError."""
    path = Path(name)
    if path.suffix in {".yaml", ".yml"} or path.is_file():
        return path
    folder = resources.shipped("scenarios")
    names = sorted(file.stem for file in folder.glob("*.yaml"))
    if name not in names:
        raise InputError(
            f"no scenario {name!r}",
            why=suggestion(name, names),
            hint="name a shipped scenario, or give the path of a .yaml file",
        )
    return folder / f"{name}.yaml"


def read_experiment(name: str, scale: Scale = DEFAULT_SCALE, settings: Sequence[str] = ()) -> Experiment:
    """The scenario `name` at `scale`, with `--set` settings (`load.connections=64`) laid over it.

    Raises InputError naming file, line and field of what is wrong.
    """
    file = read_document(find_scenario(name))
    document = at_scale(file, scale)
    for setting in settings:
        document = document.overlaid(_setting(setting, document))
    return _experiment(document, scale, settings, _levels(file, document))


def varied(experiment: Experiment, changes: Mapping[str, object], why: str) -> Experiment:
    """The experiment with fields of its scenario changed; `why` is named as their source in errors. Raises InputError."""
    document = experiment.document.overlaid(Document(dict(changes), {(): Origin(why, None)}))
    return _experiment(document, experiment.scale, experiment.settings, _levels(document, document))


def stored_experiment(
    data: Mapping[str, object], source: str, scale: Scale, settings: Sequence[str] = ()
) -> Experiment:
    """The experiment of a stored run: `data` is its scenario with scale and settings laid over it. Raises InputError."""
    document = Document(dict(data), {(): Origin(source, None)})
    return _experiment(document, scale, settings, _levels(document, document))


def _experiment(
    document: Document, scale: Scale, settings: Sequence[str], factors: Mapping[str, Sequence[object]]
) -> Experiment:
    scenario = document.validated(Scenario)
    cells = expand(scenario, document)
    ids = [cell.cell_id for cell in cells]
    if doubled := {i for i in ids if ids.count(i) > 1}:
        raise InputError(document.fault(("cells",), f"the cell {doubled.pop()} stands twice"))
    if scenario.baseline is not None and not any(scenario.baseline.items() <= c.levels.items() for c in cells):
        raise InputError(document.fault(("baseline",), f"no cell has {cell_id(scenario.baseline)}"))
    check_scenario(scenario, document, cells, factors)
    return Experiment(scenario, scale, cells, document, tuple(settings))


def scales_of(name: str) -> tuple[Scale, ...]:
    """The scales that a scenario has. Raises InputError."""
    document = read_document(find_scenario(name))
    if "scales" not in document.data:
        return (DEFAULT_SCALE,)
    scales = document.at("scales").validated(_Scales)
    return tuple(scale for scale in SCALES if getattr(scales, scale) is not None)


def _levels(file: Document, document: Document) -> dict[str, list[object]]:
    """The levels of each factor at any scale that the file has, and as `--set` has them."""
    parts = [file, *(file.at("scales", scale) for scale in file.data.get("scales") or ()), document]
    levels: dict[str, list[object]] = {}
    for part in parts:
        factors = (part.data or {}).get("factors")
        for name, found in factors.items() if isinstance(factors, dict) else ():
            levels.setdefault(name, []).extend(found if isinstance(found, list) else ())  # other scales are not checked
    return levels


def at_scale(document: Document, scale: Scale) -> Document:
    """The document with the fields of `scales.<scale>` laid over it."""
    if "scales" not in document.data:
        if scale != DEFAULT_SCALE:
            raise InputError(document.fault((), f"has no scales, so there is no {scale!r}; leave --scale out"))
        return document
    scales = document.at("scales").validated(_Scales)
    overlay = getattr(scales, scale)
    if overlay is None:
        there = ", ".join(s for s in SCALES if getattr(scales, s) is not None)
        raise InputError(document.fault(("scales",), f"has no scale {scale!r}; it has: {there}"))
    for key in overlay:
        if key in FIXED:
            raise InputError(document.fault(("scales", scale, key), "is the same at every scale; set it at the top"))
    return document.without("scales").overlaid(document.at("scales", scale))


def _setting(setting: str, document: Document) -> Document:
    """`--set a.b=value` as a document of its own, the value read as YAML."""
    path, equals, text = setting.partition("=")
    keys = path.split(".")
    source = f"--set {setting}"
    if not equals or not all(keys):
        raise InputError("not of the form field=value", where=source, hint="for example --set load.connections=64")
    if keys[0] not in document.data and keys[0] not in Scenario.model_fields:
        raise InputError(f"no field {keys[0]!r}", where=source, why=suggestion(keys[0], Scenario.model_fields))
    value = parse_document(f"value: {text}", source)
    data = value.data["value"]
    for key in reversed(keys):
        data = {key: data}
    return Document(data, {(): Origin(source, None)})
