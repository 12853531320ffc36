"""The pages of a site, each written only where its content changed since."""

from __future__ import annotations

import hashlib
import json
import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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
class _Result:
    """Reading of a scenario's latest run that ended: its question, the answer, and the claims."""

    run_id: str
    question: str
    sentences: tuple[str, ...]
    trust: str
    claims: tuple[tuple[str, str, str], ...]
    """Text, state and figures of each claim."""

    @property
    def summary(self) -> str:
        """Number of claims in each state."""
        counts = Counter(state for _, state, _ in self.claims)
        return ", ".join(f"{number} {state}" for state, number in counts.items())


@dataclass(frozen=True)
class _Scenario:
    name: str
    title: str
    runs: int
    latest: str
    sentences: tuple[str, ...]
    """The shifts of its series."""
    result: _Result | None
    """None where no run of it can be read."""


@dataclass(frozen=True)
class _Chart:
    number: int
    title: str
    caption: str
    element: Markup


def write_site(store: Store, folder: Path) -> WrittenSite:
    """Write the site of a store: `index.html`, a page for each scenario, and the reports that its runs have.

    Calibrations are omitted.
    A page whose content did not change stays as it is. Raises InputError for an empty store, BenchkitError if a file
    cannot be written.
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
    figures = []
    for name in dict.fromkeys(run.scenario for run in runs):
        of_scenario = [run for run in runs if run.scenario == name]
        history_of = _history(store, name) if len(of_scenario) >= MIN_HISTORY else None
        view = _latest_view(store, [run for run, manifest in found if manifest.scenario_name == name])
        result = None if view is None else _result(view)
        title = next(str(m.scenario.get("title") or name) for _, m in reversed(found) if m.scenario_name == name)
        scenarios.append(_scenario(name, title, of_scenario, history_of, result))
        figures.append(view)
        written += _write_scenario(folder, title, of_scenario, history_of, (view, result))
    index = folder / "index.html"
    state = _digest([scenarios, runs])
    content = {
        "scenarios": scenarios,
        "charts": [] if _state_of(index) == state else list(_answer_charts(scenarios, figures)),
        "runs": runs[: -LATEST - 1 : -1],
        "count": len(runs),
    }
    written += _write_page(index, state, "site-index.html.j2", f"Results of {units.counted(len(runs), 'run')}", content)
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


def _latest_view(store: Store, runs: Sequence[RunFolder]) -> StoredRun | None:
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


def _result(view: StoredRun) -> _Result:
    return _Result(
        run_id=view.manifest.run_id,
        question=" ".join(str(view.manifest.scenario.get("question") or "").split()),
        sentences=view.answer.sentences,
        trust=view.answer.trust_sentence,
        claims=tuple((" ".join(each.text.split()), each.state, each.sentence) for each in view.claims),
    )


def _answer_charts(scenarios: Sequence[_Scenario], views: Sequence[StoredRun | None]) -> Iterator[_Chart]:
    """Yield the figure of each scenario's latest run, of the first few."""
    for number, (scenario, view) in enumerate(zip(scenarios[:MAX_ANSWERS], views, strict=False)):
        yield from () if view is None else _answer_chart(view, scenario.title, number)


def _answer_chart(view: StoredRun, title: str, number: int) -> Iterator[_Chart]:
    """Yield the figure that shows the answer: ratios with their claims, else the rates."""
    for figure in map(get_figure, ("ratios", "rps")):
        if figure.is_available(view):
            element = Markup(render(figure, view).element)  # noqa: S704 - matplotlib has escaped its texts
            yield _Chart(number=number, title=title, caption=figure.caption(view), element=element)
            return


def _scenario(name: str, title: str, runs: Sequence[_Run], found: History | None, result: _Result | None) -> _Scenario:
    shifts = () if found is None else tuple(shift.sentence for series in found.series for shift in series.shifts)
    return _Scenario(name=name, title=title, runs=len(runs), latest=runs[-1].started, sentences=shifts, result=result)


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


def _write_scenario(
    folder: Path,
    title: str,
    runs: Sequence[_Run],
    found: History | None,
    latest: tuple[StoredRun | None, _Result | None],
) -> bool:
    name, (view, result) = runs[0].scenario, latest
    page = folder / "scenarios" / f"{name}.html"
    state = _digest([title, runs, None if found is None else found.model_dump(mode="json"), result])
    if _state_of(page) == state:
        return False
    charts = [] if found is None else [_chart(found, series, i) for i, series in enumerate(found.series[:MAX_SERIES])]
    omitted = 0 if found is None else len(found.series) - len(charts)
    content: dict[str, object] = {
        "name": name,
        "result": result,
        "answers": [] if view is None else list(_answer_chart(view, "The answer", 0)),
        "is_history": len(runs) >= MIN_HISTORY,
        "charts": charts,
        "omitted": omitted,
        "metric": metric_named(METRIC).title,
        "notes": () if found is None else found.notes,
        "runs": runs[::-1],
    }
    return _write_page(page, state, "site-scenario.html.j2", title, content)


def _chart(found: History, series: HistorySeries, number: int) -> _Chart:
    caption = " ".join(series.sentences)
    if len(series.segments) > 1:
        caption += f" Hosts or settings changed {units.counted(len(series.segments) - 1, 'time')}."
    return _Chart(
        number=number,
        title=f"{series.title} ({series.scale} scale)",
        caption=caption,
        element=Markup(render_series(found, series).element),  # noqa: S704 - matplotlib has escaped its texts
    )


def _write_page(path: Path, state: str, template: str, title: str, content: dict[str, object]) -> bool:
    """Write a page, unless it has this state; return True if it was written."""
    if _state_of(path) == state:
        return False
    style, script = html.theme() + html.asset("report.css"), html.asset("report.js")
    page = (
        html.environment()
        .get_template(template)
        .render(
            title=title,
            state=state,
            style=Markup(style),  # noqa: S704 - a file of this package, without data
            script=Markup(script),  # noqa: S704 - a file of this package, without data
            policy=html.policy(style, script),
            version=__version__,
            prefix="",
            suffix="",
            **content,
        )
    )
    write_file(path, page.encode())
    return True


def _state_of(page: Path) -> str | None:
    """Return the state of a written page; None where there is none."""
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
