"""The page: runs with their sections in their templates, style and script inside, nothing fetched, nothing run but ours."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC

from markupsafe import Markup

from benchkit import units
from benchkit.models.run import Manifest
from benchkit.report import html
from benchkit.report.rendering import Drawing
from benchkit.report.sections.registry import SECTIONS
from benchkit.report.sections.section import Material
from benchkit.report.stored_run import StoredRun
from benchkit.version import __version__

_ID = re.compile(r'( (?:id|for|aria-labelledby|aria-describedby)="| (?:xlink:)?href="#|="url\(#)(?=.)')
"""Where an id stands in an attribute of ours; in texts quotes are escaped."""
_LABEL = re.compile(r'( aria-label="[^"]*)')
"""A name that screen readers say."""


@dataclass(frozen=True)
class Part:
    """A run as its part of a page."""

    run_id: str
    title: str
    prefix: str
    """What its ids begin with, so that no other part has them."""
    first: str
    """The id of its first section."""
    article: Markup


def page(*runs: tuple[StoredRun, Sequence[Drawing]]) -> str:
    """The report of one run or several, each with its figures drawn, as one HTML document."""
    parts = [_part(run, drawings, number) for number, (run, drawings) in enumerate(runs, start=1)]
    style, script = html.theme() + html.asset("report.css"), html.asset("report.js")
    return (
        html.environment()
        .get_template("report.html.j2")
        .render(
            title=" \N{MIDDLE DOT} ".join(dict.fromkeys(part.title for part in parts)),
            runs=parts,
            # Both are ours, no data is in them; the policy lets nothing else run or style.
            style=Markup(style),  # noqa: S704 - as said
            script=Markup(script),  # noqa: S704 - as said
            policy=html.policy(style, script),
            version=__version__,
        )
    )


def _part(run: StoredRun, drawings: Sequence[Drawing], number: int) -> Part:
    prefix = f"run{number}-" if number > 1 else ""
    material = Material(run, tuple(drawings))
    built = [(section, content) for section in SECTIONS if (content := section.build(material)) is not None]
    title = str(run.manifest.scenario.get("title") or run.manifest.scenario["name"])
    article = (
        html.environment()
        .get_template("run.html.j2")
        .render(
            manifest=run.manifest,
            title=title,
            question=run.manifest.scenario.get("question"),
            facts=_facts(run.manifest),
            sections=built,
        )
    )
    return Part(
        run_id=run.manifest.run_id,
        title=title,
        prefix=prefix,
        first=prefix + built[0][0].name,
        article=Markup(_apart(article, number, prefix)),  # noqa: S704 - a template of ours has escaped what is in it
    )


def _apart(article: str, number: int, prefix: str) -> str:
    """The article with ids, and names of its regions, that no other part of the page has."""
    return _LABEL.sub(rf"\g<1>, run {number}", _ID.sub(rf"\g<1>{prefix}", article)) if prefix else article


def _facts(manifest: Manifest) -> list[tuple[str, str]]:
    """What a reader asks first of a run, under its title."""
    took = None if manifest.ended_at is None else (manifest.ended_at - manifest.started_at).total_seconds()
    return [
        ("Scenario", f"{manifest.scenario['name']}, {manifest.scale} scale"),
        ("Run", manifest.run_id),
        ("Started", manifest.started_at.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")),
        ("Took", units.duration(took)),
        ("Hosts", ", ".join(host.name for host in manifest.hosts)),
    ]
