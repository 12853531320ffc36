"""The report page: the sections of a run in one file with style and script; it escapes all data, fetches nothing."""

from __future__ import annotations

import base64
import functools
import hashlib
import re
from collections.abc import Sequence
from datetime import UTC
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from benchkit import units
from benchkit.models.design import TERMS, explain
from benchkit.models.run import Manifest
from benchkit.report.figure import Drawing
from benchkit.report.sections import comparisons, results, services, trials, validity
from benchkit.report.sections.blocks import ReportInput, Section
from benchkit.report.stored_run import StoredRun
from benchkit.report.style import TONES
from benchkit.report.tables import Table
from benchkit.safe_text import legible
from benchkit.version import __version__

SECTIONS: tuple[Section, ...] = (
    results.ANSWER,
    results.RESULTS,
    comparisons.CLAIMS,
    comparisons.RATIOS,
    validity.VALIDITY,
    results.FIGURES,
    services.SERVICES,
    trials.TRIALS,
    validity.NOTES,
    trials.REPRODUCE,
)
"""All sections, in the order of reading."""


def page(run: StoredRun, drawings: Sequence[Drawing] = ()) -> str:
    """Return the report of a run with its drawn figures as one HTML document."""
    report = ReportInput(run, tuple(drawings))
    built = [(section, blocks) for section in SECTIONS if (blocks := list(section.build(report)))]
    style, script = _theme() + _asset("report.css"), _asset("report.js")
    manifest = run.manifest
    return (
        _environment()
        .get_template("report.html.j2")
        .render(
            manifest=manifest,
            title=str(manifest.scenario.get("title") or manifest.scenario_name),
            question=manifest.scenario.get("question"),
            facts=_facts(manifest),
            words=explain(*TERMS),
            sections=built,
            style=Markup(style),  # noqa: S704 - a file of this package, without data
            script=Markup(script),  # noqa: S704 - a file of this package, without data
            policy=(
                f"default-src 'none'; img-src data:; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
                "base-uri 'none'; form-action 'none'"
            ),
            version=__version__,
        )
    )


def _facts(manifest: Manifest) -> list[tuple[str, str]]:
    return [
        ("Scenario", f"{manifest.scenario_name}, {manifest.scale} scale"),
        ("Run", manifest.run_id),
        ("Started", manifest.started_at.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")),
        ("Took", _took(manifest)),
        ("Hosts", ", ".join(host.name for host in manifest.hosts) or "not known: measured elsewhere, and imported"),
    ]


def _took(manifest: Manifest) -> str:
    """Return the time from the start of a run to its end, both by the controller's wall clock."""
    if manifest.ended_at is None or manifest.is_imported:
        return units.ABSENT
    took_s = (manifest.ended_at - manifest.started_at).total_seconds()
    return units.duration(took_s) if took_s >= 0 else "unknown: the controller's clock was set back during the run"


@functools.cache
def _environment() -> Environment:
    """Return the environment of the templates: it escapes all data, and refuses missing values."""
    result = Environment(
        loader=PackageLoader("benchkit.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: legible(value) if isinstance(value, str) and not isinstance(value, Markup) else value,
    )
    result.filters["body"] = _body
    return result


_TAGS = {"number": "<td", "name": "<th scope=row", "text": "<td class=text", "prose": "<td class=prose"}
"""Opening tag of the cells of a column, by its kind."""
_needs_escape = re.compile("[&<>\"']").search


def _body(table: Table) -> Markup:
    """Return the rows of a table as HTML: templates are too slow for the ten thousand rows that a run may have."""
    tags = [(_TAGS[column.kind], "</th>" if column.kind == "name" else "</td>") for column in table.columns]
    parts: list[str] = []
    for row in table.rows:
        parts.append("<tr>")
        for (tag, end), entry in zip(tags, row, strict=True):
            exact, text = entry.exact, legible(entry.text)
            parts.append(f"{tag}>" if exact is None else f"{tag} data-v={exact}>")
            parts.append(escape(text) if _needs_escape(text) else text)
            parts.append(end)
        parts.append("</tr>")
    return Markup("".join(parts))  # noqa: S704 - texts in it are escaped


def _theme() -> str:
    """Return the tones as CSS variables, light and for dark screens; paper is light."""
    light = "".join(f"--{tone.name}:{tone.light};" for tone in TONES)
    dark = "".join(f"--{tone.name}:{tone.dark};" for tone in TONES)
    return f":root{{{light}}}@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}\n"


def _asset(name: str) -> str:
    return files("benchkit.report").joinpath("templates", name).read_text(encoding="utf-8")


def _digest(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
