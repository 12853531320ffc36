"""Reproduction of a run: the command, the scenario as it was run, the versions."""

from __future__ import annotations

import io
import shlex
from dataclasses import dataclass
from urllib.parse import quote

from ruamel.yaml import YAML

from benchkit.report.sections.section import Material, Section
from benchkit.report.tables import Column, Entry, Table


@dataclass(frozen=True)
class ReproduceContent:
    """The command with scale and seed, the scenario as text and as a link that saves it, and the versions."""

    command: str
    scenario: str
    download: str
    file: str
    versions: Table


def build(material: Material) -> ReproduceContent | None:
    """Return what is needed to run the same plan again; None for an imported run, which had no plan."""
    manifest = material.run.manifest
    if manifest.is_imported:
        return None
    name = str(manifest.scenario["name"])
    scenario = _yaml(manifest.model_dump(mode="json")["scenario"])
    return ReproduceContent(
        command=shlex.join(
            [
                *("benchkit", "run", name, "--scale", manifest.scale, "--seed", str(manifest.seed)),
                *(word for setting in manifest.settings for word in ("--set", setting)),
            ]
        ),
        scenario=scenario,
        download=f"data:application/yaml;charset=utf-8,{quote(scenario)}",
        file=f"{name}-as-run.yaml",
        versions=Table(
            name="versions",
            caption="Versions",
            columns=(Column("Software", "name"), Column("Version", "prose")),
            rows=tuple((Entry(software), Entry(version)) for software, version in manifest.versions.items()),
        ),
    )


SECTION = Section("reproduce", "How to reproduce it", "reproduce.html.j2", build)


def _yaml(data: object) -> str:
    yaml = YAML()
    yaml.default_flow_style = False
    yaml.width = 4096  # the page breaks long lines, not the file
    text = io.StringIO()
    yaml.dump(data, text)
    return text.getvalue()
