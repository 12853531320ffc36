"""The pages of a site, each written only if its content changed."""

from __future__ import annotations

import hashlib
import json
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from markupsafe import Markup

from benchkit import units
from benchkit.errors import InputError
from benchkit.files import open_regular, read_regular
from benchkit.models.metrics import metric_named
from benchkit.models.run import Manifest
from benchkit.report import html
from benchkit.report.figures.history import render_series
from benchkit.report.figures.registry import get_figure
from benchkit.report.pages.report_files import make_folder, write_error, write_file
from benchkit.report.rendering import render
from benchkit.report.stored_run import StoredRun, read_run
from benchkit.run_history.series import History, HistorySeries, history
from benchkit.store.run_folder import RunFolder
from benchkit.store.store import Store
from benchkit.version import __version__

logger = logging.getLogger(__name__)

METRIC = "rps"
MIN_HISTORY = 3
"""Fewest runs of a scenario that are a history."""
MAX_ANSWERS = 12
"""Scenarios whose figures the first page draws."""
MAX_SERIES = 12
"""Series of a scenario that are drawn; the table has all."""
LATEST = 50
"""Runs that the first page lists, the newest."""

_ASSETS = (
    "report.css",
    "report.js",
    "site.html.j2",
    "site-macros.html.j2",
    "site-index.html.j2",
    "site-scenario.html.j2",
)

_STATE = '<meta name="benchkit-state" content="'
_HEAD_BYTES = 4096
"""Bytes of a page that hold its state."""


@dataclass(frozen=True)
class WrittenSite:
    """A written site: its first page, the number of its pages, and of those written this time."""

    page: Path
    pages: int
    written: int


@dataclass(frozen=True)
class _Run:
    run_id: str
    scenario: str
    scale: str
    started: str
    status: str
    code: str
    tags: str
    cells: int
    report: str | None
    """Path of its report from the folder of the site; None: it has none."""


@dataclass(frozen=True)
class _Scenario:
    name: str
    title: str
    runs: Sequence[_Run]
    history: History | None
    latest: StoredRun | None
    """The latest run that can be read and has a measured trial."""

    @property
    def question(self) -> str:
        return " ".join(str(self.latest.manifest.scenario.get("question") or "").split()) if self.latest else ""

    @property
    def shifts(self) -> list[str]:
        return [shift.sentence for series in (self.history.series if self.history else ()) for shift in series.shifts]

    @property
    def claims(self) -> str:
        """Number of claims in each state."""
        counts = Counter(claim.state for claim in (self.latest.claims if self.latest else ()))
        return ", ".join(f"{number} {state}" for state, number in counts.items())

    @property
    def shown(self) -> list[object]:
        """All that its page shows, from which the state of the page follows."""
        result: list[object] = []
        if self.latest is not None:
            claims = [(claim.text, claim.state, claim.sentence) for claim in self.latest.claims]
            result = [self.latest.manifest.run_id, self.question, self.latest.answer.model_dump(mode="json"), claims]
        return [self.title, self.runs, self.history and self.history.model_dump(mode="json"), result]


@dataclass(frozen=True)
class _Chart:
    title: str
    caption: str
    element: Markup


def write_site(store: Store, folder: Path) -> WrittenSite:
    """Write the site of a store: `index.html`, a page for each scenario, and the reports that its runs have.

    Calibrations are omitted, and unchanged pages are not written. Raises InputError for an empty store, BenchkitError
    if a file cannot be written.
    """
    stored, unreadable = store.survey()
    found = [(run, manifest) for run, manifest in stored if not manifest.is_calibration]
    for run_id, error in unreadable.items():
        logger.warning("%s is omitted: %s", run_id, error)
    if not found:
        raise InputError("the store has no runs", where=store.location, hint="`benchkit run` stores one")
    make_folder(folder)
    written = 0
    runs = []
    for run, manifest in found:
        report, is_new = _copy_report(run, folder)
        written += is_new
        runs.append(_run(manifest, run.status(manifest), report))
    scenarios = []
    for name in dict.fromkeys(run.scenario for run in runs):
        of_scenario = [run for run in runs if run.scenario == name]
        scenario = _Scenario(
            name=name,
            title=next(str(m.scenario.get("title") or name) for _, m in reversed(found) if m.scenario_name == name),
            runs=of_scenario,
            history=_history(store, name) if len(of_scenario) >= MIN_HISTORY else None,
            latest=_latest_run(store, [run for run, manifest in found if manifest.scenario_name == name]),
        )
        scenarios.append(scenario)
        written += _write_page(
            folder / "scenarios" / f"{name}.html",
            _digest(scenario.shown),
            "site-scenario.html.j2",
            scenario.title,
            partial(_scenario_content, scenario),
        )
    index = folder / "index.html"
    title = f"Results of {units.counted(len(runs), 'run')}"
    state = _digest([scenario.shown for scenario in scenarios])
    written += _write_page(index, state, "site-index.html.j2", title, partial(_index_content, scenarios, runs))
    reports = sum(run.report is not None for run in runs)
    return WrittenSite(index, 1 + len(scenarios) + reports, written)


def _history(store: Store, scenario: str) -> History | None:
    """Return the history of a scenario; None where no trial of it ended, or every run of it is damaged."""
    if scenario not in store.files.table_scenarios():
        return None
    try:
        return history(scenario, metric=METRIC, store=store)
    except InputError as error:
        logger.warning("%s", error)
        return None


def _run(manifest: Manifest, status: str, report: str | None) -> _Run:
    return _Run(
        run_id=manifest.run_id,
        scenario=manifest.scenario_name,
        scale=manifest.scale,
        started=f"{manifest.started_at:%Y-%m-%d %H:%M}",
        status=status,
        code=manifest.code.short if manifest.code else "",
        tags=", ".join(f"{name}={value}" for name, value in manifest.tags.items()),
        cells=len(manifest.cells),
        report=report,
    )


def _latest_run(store: Store, runs: Sequence[RunFolder]) -> StoredRun | None:
    """Return the latest run that can be read and has a measured trial; None where there is none."""
    for run in reversed(runs):
        try:
            view = read_run(store, run)
        except InputError as error:
            logger.warning("%s", error)
            continue
        if len(view.measured):
            return view
    return None


def _index_content(scenarios: Sequence[_Scenario], runs: Sequence[_Run]) -> dict[str, object]:
    charts = [chart for each in scenarios[:MAX_ANSWERS] for chart in _answer_chart(each.latest, each.title)]
    return {"scenarios": scenarios, "charts": charts, "runs": runs[: -LATEST - 1 : -1], "count": len(runs)}


def _scenario_content(scenario: _Scenario) -> dict[str, object]:
    found = scenario.history
    charts = [] if found is None else [_chart(found, series) for series in found.series[:MAX_SERIES]]
    return {
        "scenario": scenario,
        "answers": list(_answer_chart(scenario.latest, "The answer")),
        "is_history": len(scenario.runs) >= MIN_HISTORY,
        "charts": charts,
        "omitted": 0 if found is None else len(found.series) - len(charts),
        "metric": metric_named(METRIC).title,
    }


def _answer_chart(run: StoredRun | None, title: str) -> Iterator[_Chart]:
    """Yield the figure that shows the answer of a run: ratios with their claims, else the rates."""
    for figure in map(get_figure, ("ratios", "rps")):
        if run is not None and figure.is_available(run):
            drawing = render(figure, run)
            yield _Chart(title, drawing.caption, drawing.element)
            return


def _copy_report(run: RunFolder, folder: Path) -> tuple[str | None, bool]:
    """Copy the report of a run where it is newer; return its path from the folder, and True if it was copied.

    A page that is no report of this run, by benchkit, is neither copied nor shown.
    """
    source = run.report / "report.html"
    if not _is_report(source, run.run_id):
        return None, False
    name = f"runs/{run.run_id}.html"
    copy = folder / name
    if _is_report(copy, run.run_id) and copy.stat().st_mtime_ns >= source.stat().st_mtime_ns:
        return name, False
    write_file(copy, read_regular(source))
    return name, True


def _is_report(page: Path, run_id: str) -> bool:
    """Return True for a page with the mark that benchkit gives to the report of this run."""
    return f'<meta name="benchkit-run" content="{run_id}">' in _head(page)


def _chart(found: History, series: HistorySeries) -> _Chart:
    caption = " ".join(series.sentences)
    if len(series.segments) > 1:
        caption += f" Hosts or settings changed {units.counted(len(series.segments) - 1, 'time')}."
    return _Chart(f"{series.title} ({series.scale} scale)", caption, render_series(found, series).element)


def _write_page(path: Path, state: str, template: str, title: str, content: Callable[[], dict[str, object]]) -> bool:
    """Write a page, unless it has this state; return True if it was written."""
    if _state_of(path) == state:
        return False
    style, script = html.theme() + html.asset("report.css"), html.asset("report.js")
    page = html.environment().get_template(template)
    text = page.render(
        title=title,
        state=state,
        style=Markup(style),  # noqa: S704 - a file of this package, without data
        script=Markup(script),  # noqa: S704 - a file of this package, without data
        policy=html.policy(style, script),
        version=__version__,
        prefix="",
        suffix="",
        **content(),
    )
    write_file(path, text.encode())
    return True


def _state_of(page: Path) -> str | None:
    _, found, rest = _head(page).partition(_STATE)
    return rest.partition('"')[0] if found else None


def _head(page: Path) -> str:
    try:
        with open_regular(page) as file:
            return file.read(_HEAD_BYTES).decode(errors="replace")
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise write_error(page, error) from error


def _digest(content: object) -> str:
    """Return the state of a page with this content, written by this version."""
    assets = [html.asset(name) for name in _ASSETS]
    text = json.dumps([__version__, assets, content], default=vars, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
