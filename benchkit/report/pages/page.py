"""The report page: runs with their sections, style and script in one file that fetches nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC

from markupsafe import Markup

from benchkit import units
from benchkit.models.design import TERMS, explain
from benchkit.models.run import Manifest
from benchkit.report import html
from benchkit.report.rendering import Drawing
from benchkit.report.sections import results, section, services, trials, validity
from benchkit.report.sections.section import ReportInput, Section
from benchkit.report.stored_run import StoredRun
from benchkit.version import __version__

SECTIONS: tuple[Section, ...] = (
    results.ANSWER,
    results.RESULTS,
    results.CLAIMS,
    results.PUBLISHED,
    results.RATIOS,
    results.CLASSES,
    validity.VERDICTS,
    validity.TOOL_AGREEMENT,
    section.FIGURES,
    services.PROFILES,
    services.WORKERS,
    services.DISK_USAGE,
    trials.TRIALS,
    validity.FAILURES,
    validity.NOTES,
    validity.UNSUPPORTED,
    trials.HOSTS,
    validity.HOST_NOTES,
    trials.REPRODUCE,
)
"""All sections, in the order of reading."""


@dataclass(frozen=True)
class ReportPart:
    """A run as its part of a page."""

    run_id: str
    title: str
    prefix: str
    """Prefix of its ids, which makes them unique in the page."""
    first: str
    """Id of its first section."""
    article: Markup


def page(*runs: tuple[StoredRun, Sequence[Drawing]]) -> str:
    """Return the report of one or several runs, each with its drawn figures, as one HTML document."""
    parts = [_part(run, drawings, number) for number, (run, drawings) in enumerate(runs, start=1)]
    style, script = html.theme() + html.asset("report.css"), html.asset("report.js")
    return (
        html.environment()
        .get_template("report.html.j2")
        .render(
            title=" \N{MIDDLE DOT} ".join(dict.fromkeys(part.title for part in parts)),
            runs=parts,
            style=Markup(style),  # noqa: S704 - a file of this package, without data
            script=Markup(script),  # noqa: S704 - a file of this package, without data
            policy=html.policy(style, script),
            version=__version__,
        )
    )


def _part(run: StoredRun, drawings: Sequence[Drawing], number: int) -> ReportPart:
    """Return the part of a run; ids and labels of regions of all runs but the first have the run's number."""
    prefix, suffix = ("", "") if number == 1 else (f"run{number}-", f", run {number}")
    report = ReportInput(run, tuple(drawings))
    built = [(section, content) for section in SECTIONS if (content := section.build(report)) is not None]
    title = str(run.manifest.scenario.get("title") or run.manifest.scenario_name)
    article = (
        html.environment()
        .get_template("run.html.j2")
        .render(
            prefix=prefix,
            suffix=suffix,
            manifest=run.manifest,
            title=title,
            question=run.manifest.scenario.get("question"),
            facts=_facts(run.manifest),
            words=explain(*TERMS),
            sections=built,
        )
    )
    return ReportPart(
        run_id=run.manifest.run_id,
        title=title,
        prefix=prefix,
        first=prefix + built[0][0].name,
        article=Markup(article),  # noqa: S704 - the template has escaped all data
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
