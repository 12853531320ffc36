"""A published study: its source and sentences, and the recorded runs that answer them.

`scenarios/studies/<name>.yaml` describes one. Its texts are Jinja templates in which figures stand by name, so that no
number is typed. Each is a ratio of cells of a recorded run.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import jinja2
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import Field

from benchkit import units
from benchkit.comparison.claims import ClaimResult, ClaimState, judge_claim
from benchkit.comparison.cpu_profiles import ServiceProfile
from benchkit.comparison.ratios import Ratio
from benchkit.document import parse_document
from benchkit.models.base import Frozen
from benchkit.models.claims import CellPair, Claim, published_of
from benchkit.models.metrics import metric_named
from benchkit.report.stored_run import StoredRun, read_run
from benchkit.stats.samples import geometric_mean, take_samples
from benchkit.store.store import Store, open_store
from tests.support.paths import ROOT

FOLDER = ROOT / "scenarios" / "studies"
RECORDED = ROOT / "notebooks" / "recorded"
NOTHING = "(no usable trial)"
"""Text in place of a mean of nothing."""
CHINESE = {"holds": "成立", "refuted": "不成立", "undecided": "未决", "not testable here": "在此无法检验"}
"""Results of claims in Chinese."""
PROXY, SERVER = "front", "app"
"""Names of the proxy, and of the server behind it, in stacks of shipped scenarios."""


class Sentence(Frozen):
    """A sentence of the author, paraphrased, with the claims that test it, or what was found instead."""

    says: str
    kind: str = ""
    """What kind of sentence it is, where it is no measured figure: advice, a conjecture, somebody else's."""
    claims: tuple[str, ...] = ()
    """Beginnings of the texts of claims."""
    found: str = ""
    """Template of the finding, where no claim tells it."""
    result: ClaimState | None = None
    """Result, where no claim decides the sentence: a test has to."""


class RatioOf(CellPair):
    """A ratio of cells in a recorded run."""

    scenario: str
    metric: str = "rps"
    held: bool = False
    relative_to: CellPair | None = None


class DrawnRatio(Frozen):
    """A row of the figure of a page."""

    figure: str
    """Name of the ratio; of several cells each has a row."""
    label: str
    published: float | None = None


class Study(Frozen):
    """One source and what is shown on its page."""

    title: str
    year: int
    source: str
    """Author, date and address, as a sentence."""
    setup: tuple[str, ...] = Field(max_length=6)
    scenarios: tuple[str, ...]
    connections: int | None = None
    """Connections of the published figures, against which their latencies are held."""
    contradictions: str = ""
    """What explains latencies that need more requests in flight."""
    sentences: tuple[Sentence, ...] = ()
    figures: Mapping[str, RatioOf] = Field(default_factory=dict)
    answer: str
    found: str
    table: str = ""
    """Figures beyond six, as a template of Markdown tables."""
    chinese: str
    drawn: tuple[DrawnRatio, ...]
    """Ratios of the answer, with the published ones beside them."""
    lab: str = "benchkit lab up"
    options: Mapping[str, str] = Field(default_factory=dict)
    """Options of `benchkit run`, by scenario."""


def telemetry_of(run: StoredRun, cell: str) -> pd.DataFrame:
    """Return the telemetry of the measured trials of a cell, within their windows."""
    ends = run.telemetry["trial_id"].map(run.trials_of(cell).set_index("trial_id")["duration_s"]).astype("float64")
    return run.telemetry[(run.telemetry["t_s"] >= 0) & (run.telemetry["t_s"] <= ends)]


@dataclass(frozen=True, eq=False)
class RecordedStudy:
    """A study with the recorded runs of its scenarios."""

    name: str
    study: Study
    store: Store = field(default_factory=lambda: open_store(RECORDED))

    @cached_property
    def runs(self) -> dict[str, StoredRun]:
        """The recorded run of each of its scenarios that has one."""
        found = {run.manifest().scenario_name: run for run in self.store.runs()}
        return {name: read_run(self.store, found[name]) for name in self.study.scenarios if name in found}

    @cached_property
    def claims(self) -> list[tuple[str, ClaimResult]]:
        """Every claim with its scenario."""
        return [(name, claim) for name, run in self.runs.items() for claim in run.claims]

    def claims_named(self, beginnings: tuple[str, ...]) -> list[ClaimResult]:
        """Return the claims whose texts begin so. Raises KeyError for a beginning of none."""
        found = []
        for beginning in beginnings:
            named = [claim for _, claim in self.claims if " ".join(claim.text.split()).startswith(beginning)]
            if not named:
                raise KeyError(f"{self.name}: no claim begins with {beginning!r}")
            found += named
        return found

    def figure(self, name: str) -> ClaimResult:
        """Return a named ratio of the study, measured."""
        wanted = self.study.figures[name]
        claim = Claim(
            text=name,
            ratio=CellPair(of=wanted.of, to=wanted.to),
            relative_to=wanted.relative_to,
            metric=wanted.metric,
            held=wanted.held,
            at_least=1,
        )
        return judge_claim(claim, self.runs[wanted.scenario].data)

    def filled(self, text: str, *, as_lines: bool = False) -> str:
        """Return a template with its figures filled in, on one line unless it is a table."""
        environment = jinja2.Environment(undefined=jinja2.StrictUndefined, autoescape=False)  # noqa: S701 - Markdown
        rendered = environment.from_string(text).render(self.functions)
        return rendered.strip() if as_lines else " ".join(rendered.split())

    @property
    def functions(self) -> Mapping[str, Callable[..., str]]:
        """Functions of the templates: each returns a figure as text."""
        return {
            "ratio": self._ratio,
            "mean": self._mean,
            "waiting": self._waiting,
            "share": self._share,
            "cost": self._cost,
            "wire": self._wire,
            "connection": self._connection,
            "heap": self._heap,
            "state": self._state,
        }

    def impossible(self) -> Iterator[str]:
        """Yield the published latencies that need more requests in flight than there are connections (Little's law)."""
        for entry in (each for run in self.runs.values() for each in published_of(run.manifest.scenario)):
            rps, mean_s = (entry.figures.get(name) for name in ("rps", "latency_mean_s"))
            if self.study.connections and rps and mean_s and rps * mean_s > _TOLERANCE * self.study.connections:
                cell = ", ".join(f"{name} {level}" for name, level in entry.cell.items())
                yield (
                    f"{cell}: {rps:,.0f} requests/s with a mean of {units.seconds(mean_s)} are {rps * mean_s:,.0f} requests "
                    f"in flight on {self.study.connections:,} connections"
                )

    def quality(self) -> Iterator[str]:
        """Yield a row for each run: how many of its trials are not valid, with the checks that say so most often."""
        for name, run in self.runs.items():
            counted = run.trials[run.trials["kind"].isin(["measure", "control"])]
            reasons = run.verdicts[run.verdicts["trial_id"].isin(counted["trial_id"])]
            checks = reasons.groupby("check")["trial_id"].nunique().sort_values(ascending=False)
            others = sorted(set(re.findall(r"busiest of them was (\S+) \(pid", " ".join(reasons["text"]))))
            beside = f"; beside {' and '.join(others)}" if others else ""
            shown = ", ".join(f"`{check}` {number}" for check, number in checks.head(3).items())
            of = counted["verdict"].value_counts()
            yield f"| `{name}` | {len(counted)} | {of.get('suspect', 0)} | {of.get('invalid', 0)} | {shown}{beside} |"

    def _ratio(self, name: str) -> str:
        """Return a ratio with its interval: `0.43 [0.41, 0.45]`; of several cells each."""
        return ", ".join(map(with_interval, self.figure(name).ratios))

    def _mean(self, scenario: str, metric: str = "rps", **levels: object) -> str:
        """Return the mean of a metric over the usable trials of a cell, without a unit for rates."""
        run = self.runs[scenario]
        samples = take_samples(run.trials, metric, run.data.exclusions)
        return _formatted(metric, samples.known(self._cell(run, levels)))

    def _waiting(self, scenario: str, **levels: object) -> str:
        """Return the share of finding and waiting for work of a cell, with its interval over samples."""
        profile = self._profile(scenario, levels)
        low, high = profile.interval or profile.range
        return f"{units.share(profile.waiting)} [{100 * low:.1f}, {100 * high:.1f}]"

    def _share(self, scenario: str, *categories: str, **levels: object) -> str:
        """Return the share of categories in the profiles of a cell's Go server."""
        profile = self._profile(scenario, levels)
        return units.share(sum(profile.categories[category] for category in categories))

    def _cost(self, scenario: str, *components: str, column: str = "value", **levels: object) -> str:
        """Return the CPU time per request of components of the server, or its difference to the baseline."""
        rows = self.runs[scenario].table("components")
        rows = rows[(rows["cell_id"] == self._cell(self.runs[scenario], levels)) & (rows["service"] == SERVER)]
        rows = rows[rows["component"].isin(components)]
        return units.seconds(abs(rows[column].sum())) if len(rows) else NOTHING

    def _wire(self, scenario: str, metric: str, **levels: object) -> str:
        """Return the bytes per request on the server's link, the median of the trials, by its telemetry."""
        run = self.runs[scenario]
        cell = self._cell(run, levels)
        rows = telemetry_of(run, cell)
        rows = rows[(rows["metric"] == metric) & (rows["host"] == "sut") & (rows["instance"] != "lo")]
        ends = rows.sort_values("t_s").groupby(["trial_id", "instance"])[["t_s", "value"]].agg(["first", "last"])
        rates = (ends["value"]["last"] - ends["value"]["first"]) / (ends["t_s"]["last"] - ends["t_s"]["first"])
        per_request = rates.groupby("trial_id").max() / run.trials_of(cell).set_index("trial_id")["rps"]
        return f"{per_request.median():.0f} B"

    def _profile(self, scenario: str, levels: Mapping[str, object]) -> ServiceProfile:
        """Return the profile of a cell's server, without a proxy in front of it."""
        run = self.runs[scenario]
        cell = self._cell(run, levels)
        (profile,) = [each for each in run.service_profiles if each.cell_id == cell and each.service != PROXY]
        return profile

    def _connection(self, scenario: str, few: int, many: int, **levels: object) -> str:
        """Return the memory of the server for each connection beyond a few, from means over usable trials."""
        run = self.runs[scenario]
        samples = take_samples(run.trials, "server_memory_bytes", run.data.exclusions)
        cells = [self._cell(run, {**levels, "connections": number}) for number in (few, many)]
        known = [samples.known(cell) for cell in cells]
        if not all(map(len, known)):
            return NOTHING
        low, high = (geometric_mean(map(math.exp, logs)) for logs in known)
        return units.size((high - low) / (many - few))

    def _state(self, beginning: str) -> str:
        return self.claims_named((beginning,))[0].state

    def _heap(self, scenario: str, few: int, many: int, **levels: object) -> str:
        """Return the live heap for each connection beyond a few, from medians of the samples in usable trials."""
        run = self.runs[scenario]
        excluded = list(run.values("server_memory_bytes").exclusions)
        medians = []
        for number in (few, many):
            rows = telemetry_of(run, self._cell(run, {**levels, "connections": number}))
            usable = rows[(rows["metric"] == "heap_bytes") & ~rows["trial_id"].isin(excluded)]
            medians.append(usable["value"].median())
        low, high = medians
        return NOTHING if math.isnan(high - low) else units.size((high - low) / (many - few))

    @staticmethod
    def _cell(run: StoredRun, levels: Mapping[str, object]) -> str:
        found = [
            cell.cell_id
            for cell in run.manifest.cells
            if all(str(cell.levels[name]).lower() == str(level).lower() for name, level in levels.items())
        ]
        cells = [each for each in found if not each.endswith("~control")]
        if len(cells) != 1:
            raise KeyError(f"{len(cells)} cells have {levels}")
        return cells[0]


def with_interval(ratio: Ratio) -> str:
    """Return a ratio as text: `0.43 [0.41, 0.45]`, without an interval where it has too few blocks."""
    if ratio.ratio is None:
        return "no ratio"
    if ratio.low is None or ratio.high is None:
        return _number(ratio.ratio)
    return f"{_number(ratio.ratio)} [{_number(ratio.low)}, {_number(ratio.high)}]"


def _number(value: float) -> str:
    return f"{value:.2g}" if value < _SMALL else f"{value:.2f}" if value < _LARGE else f"{value:.3g}"


_SMALL, _LARGE = 0.1, 10
"""Ratios between them have two decimals, all others some digits."""
_TOLERANCE = 1.2
"""Rounding and the edges of a run explain less (as in the check `littles-law`)."""


def _formatted(metric: str, logs: NDArray[np.float64]) -> str:
    """Return the mean of values, given as logarithms."""
    return metric_named(metric).format(geometric_mean(map(math.exp, logs))) if len(logs) else NOTHING


def read_studies() -> dict[str, RecordedStudy]:
    """Return every study by its name, the oldest first."""
    studies = {
        path.stem: Study.model_validate(parse_document(path.read_text(encoding="utf-8"), path.name).data)
        for path in sorted(FOLDER.glob("*.yaml"))
    }
    by_year = sorted(studies, key=lambda name: studies[name].year)
    return {name: RecordedStudy(name, studies[name]) for name in by_year}
