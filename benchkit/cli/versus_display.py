"""The table of `benchkit versus`: redrawn after each block on a terminal, a line per block elsewhere."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich import box
from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from benchkit import units
from benchkit.cli.progress import SilentProgress
from benchkit.cli.terminal import Terminal
from benchkit.comparison.cell_labels import UNWATCHED
from benchkit.models.design import until_of
from benchkit.run.events import BlockRepeated, Event, Notice, TrialBegun, TrialJudged, TrialWithoutResult

if TYPE_CHECKING:
    from benchkit.comparison.runs.run_data import RunData
    from benchkit.comparison.server_results import MeasuredServer, ServerResult
    from benchkit.plan.model import RunPlan
    from benchkit.scenario.trial_order import PlannedTrial

WIDTH = 80
"""Width of the table in characters."""
_NAME_WIDTH = 16
UNUSABLE = "In brackets: measured, but not usable."

ReadResults = Callable[[], Sequence["ServerResult"]]
"""Function that reads the results of the run so far."""


def results_table(results: Sequence[ServerResult]) -> Table:
    """Return the results as a table of at most `WIDTH` columns."""
    table = Table(box=box.SIMPLE, show_edge=False, pad_edge=False, padding=(0, 1))
    table.add_column("server", no_wrap=True, overflow="ellipsis", max_width=_NAME_WIDTH)
    for title in ("RPS", "ratio [95 %]", "p99", "CPU/req"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True, overflow="ellipsis")
    for result in results:
        texts = {
            "rps": units.rate(result.rps),
            "latency_p99_s": units.seconds(result.latency_p99_s),
            "server_cpu_s_per_request": units.seconds(result.server_cpu_s_per_request),
        }
        rate, *costs = (f"({text})" if metric in result.unusable else text for metric, text in texts.items())
        # Problems come first, as they decide if the row can be believed.
        verdict = result.verdicts.problems or (f"{result.verdicts.valid} valid" if result.verdicts.trials else "")
        table.add_row(Text(result.label.removesuffix(UNWATCHED)), rate, _ratio(result), *costs, verdict)
    if any(result.unusable for result in results):
        table.caption = UNUSABLE
        table.caption_justify = "left"
    return table


def describe_connections(plan: RunPlan) -> Iterator[str]:
    """Yield a sentence for each server that is there already: which host connects to which address."""
    for cell in plan.cells:
        hosts = ", ".join(dict.fromkeys(generator.host for generator in cell.generators))
        for server in cell.spec.external:
            own = " on its own loopback interface" if server.endpoint.is_loopback else ""
            yield f"{server.url}: host {hosts} connects to it{own}"


def describe_interruption(data: RunData) -> str:
    """Return the progress of an interrupted comparison as a sentence: "Interrupted after 7 of 12 blocks."."""
    cells = sum(cell.unsupported is None for cell in data.manifest.cells)
    blocks = int((data.trials.groupby("block").size() == cells).sum())
    most = "" if until_of(data.manifest.scenario) is None else "at most "
    return f"Interrupted after {blocks} of {most}{data.manifest.blocks} blocks."


def print_results(results: Sequence[ServerResult]) -> None:
    """Print the results as a table on stdout, as wide as the live one."""
    Terminal("stdout", WIDTH).print(results_table(results))


def print_measured(server: MeasuredServer) -> None:
    """Print the results of one server alone on stdout, a line for each."""
    from benchkit.models.metrics import PERCENTILES

    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_row("server", Text(server.label))
    table.add_row("RPS", units.rate(server.rps))
    for name, metric in PERCENTILES.items():
        if (latency_s := server.latency[name]) is not None:
            table.add_row(metric.title, units.seconds(latency_s))
    table.add_row("CPU per request", units.seconds(server.server_cpu_s_per_request))
    table.add_row("trials", server.verdicts.text)
    Terminal("stdout", WIDTH).print(table)


def _ratio(result: ServerResult) -> str:
    ratio = result.ratio
    if ratio is None:
        return "baseline"
    if ratio.ratio is None:
        return ""
    if ratio.is_unusable:
        return f"({ratio.ratio:.2f})"
    if ratio.low is None or ratio.high is None:
        return f"{ratio.ratio:.2f}"
    digits = units.decimals_apart(ratio.low, ratio.high)
    return f"{ratio.ratio:.{digits}f} [{ratio.low:.{digits}f}, {ratio.high:.{digits}f}]"


class VersusProgress(SilentProgress):
    """Display of a comparison: the results so far, and what happens now."""

    def __init__(self, read_results: ReadResults, planned: Sequence[PlannedTrial], budget_s: float) -> None:
        """Show the results that `read_results` gives after each block of the planned trials."""
        self._read_results, self._budget_s = read_results, budget_s
        self._planned = Counter(trial.block for trial in planned)
        self._finished: Counter[int] = Counter()
        self._results: Sequence[ServerResult] = ()
        self._stage, self._blocks = "", 0
        self._began_s: float | None = None
        self._console = Terminal("stderr")
        live = Live(console=self._console, get_renderable=self._draw, refresh_per_second=2)
        self._live = live if self._console.is_terminal else None

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Remove the live table: the command prints the final one."""
        if self._live is not None:
            self._live.update(Text(""), refresh=True)
            self._live.stop()

    def print_line(self, text: str) -> None:
        """Print the text above the table."""
        if self._live is None:
            print(text, file=sys.stderr, flush=True)
        else:
            self._console.print(text, markup=False)

    def show(self, event: Event) -> None:
        """Show what happens now, and read the results after the last trial of a block; print what went wrong."""
        super().show(event)
        match event:
            case Notice(text):
                self._stage = text
                if self._live is None:
                    self.print_line(text)
            case TrialBegun(trial):  # time counts from the first trial
                self._began_s = time.monotonic() if self._began_s is None else self._began_s
                self._stage = f"block {trial.block}: {trial.cell_id}"
            case TrialJudged(trial) | TrialWithoutResult(trial):
                self._finish(trial)
            case BlockRepeated(block):
                self._finished[block] = 0

    def _finish(self, planned_trial: PlannedTrial) -> None:
        self._finished[planned_trial.block] += 1
        if self._finished[planned_trial.block] != self._planned[planned_trial.block]:
            return
        self._blocks += 1
        self._results = self._read_results()
        if self._live is None:
            ratios = [f"{each.label} {_ratio(each) or 'no ratio yet'}" for each in self._results if each.ratio]
            results = ratios or [units.requests_per_s(each.rps) for each in self._results]
            self.print_line(f"block {self._blocks}: {', '.join(results)}")

    def _draw(self) -> RenderableType:
        elapsed_s = 0.0 if self._began_s is None else time.monotonic() - self._began_s
        state = f"{units.counted(self._blocks, 'block')}, {elapsed_s:.0f} of {self._budget_s:.0f} s"
        parts = [Text(state, "bold"), Text(self._stage, "dim")]
        for part in parts:
            part.truncate(min(WIDTH, self._console.width), overflow="ellipsis")
        return Group(parts[0], *([results_table(self._results)] if self._results else []), parts[1])
