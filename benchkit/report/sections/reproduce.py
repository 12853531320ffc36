"""How to run it again: the command, the scenario as it was run, the versions."""

from __future__ import annotations

import io
import shlex
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from ruamel.yaml import YAML

from benchkit.report.sections.section import Material, Section
from benchkit.report.tables import Column, Entry, Table


def build(material: Material) -> Mapping[str, Any]:
    """The command with scale and seed; the scenario as text and as a link that saves it."""
    manifest = material.run.manifest
    name = str(manifest.scenario["name"])
    scenario = _yaml(manifest.model_dump(mode="json")["scenario"])
    return {
        "command": shlex.join(
            [
                *("benchkit", "run", name, "--scale", manifest.scale, "--seed", str(manifest.seed)),
                *(word for setting in manifest.settings for word in ("--set", setting)),
            ]
        ),
        "scenario": scenario,
        "download": f"data:application/yaml;charset=utf-8,{quote(scenario)}",
        "file": f"{name}-as-run.yaml",
        "versions": Table(
            name="versions",
            caption="Versions",
            columns=(Column("Of", "name"), Column("Version", "prose")),
            rows=tuple((Entry(of), Entry(version)) for of, version in manifest.versions.items()),
        ),
    }


SECTION = Section("reproduce", "How to run it again", "reproduce.html.j2", build)


def _yaml(data: object) -> str:
    yaml = YAML()
    yaml.default_flow_style = False
    yaml.width = 4096  # lines are broken by the page, not by the file
    text = io.StringIO()
    yaml.dump(data, text)
    return text.getvalue()
