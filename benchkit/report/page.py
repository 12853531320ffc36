"""The page: sections in their templates, style and script inside, nothing fetched, nothing executed but ours."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC

from markupsafe import Markup

from benchkit import __version__, units
from benchkit.models.run import Manifest
from benchkit.report import html
from benchkit.report.rendering import Drawing
from benchkit.report.sections.registry import SECTIONS
from benchkit.report.sections.section import Material
from benchkit.report.view import RunView


def page(run: RunView, drawings: Sequence[Drawing]) -> str:
    """The report of a run as one HTML document."""
    material = Material(run, tuple(drawings))
    built = [(section, section.build(material)) for section in SECTIONS]
    style, script = html.theme() + html.asset("report.css"), html.asset("report.js")
    return (
        html.environment()
        .get_template("report.html.j2")
        .render(
            manifest=run.manifest,
            title=run.manifest.scenario.get("title") or run.manifest.scenario["name"],
            question=run.manifest.scenario.get("question"),
            facts=_facts(run.manifest),
            sections=[(section, context) for section, context in built if context is not None],
            # Both are ours, no data is in them; the policy lets nothing else run or style.
            style=Markup(style),  # noqa: S704 - as said
            script=Markup(script),  # noqa: S704 - as said
            policy=html.policy(style, script),
            version=__version__,
        )
    )


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
