"""One server that is compared with nothing: its rate, its latencies, and what limits it."""

from __future__ import annotations

from benchkit import units
from benchkit.comparison.cell_labels import cell_views
from benchkit.comparison.ratio import Ratio
from benchkit.comparison.ratios import value_alone
from benchkit.comparison.run_data import RunData
from benchkit.comparison.server_limit import describe_limit
from benchkit.judge.summary import VerdictCounts, count_verdicts
from benchkit.models.base import Frozen
from benchkit.models.metrics import CPU, PERCENTILES, RPS
from benchkit.stats.samples import is_comparable, take_samples
from benchkit.store.store import Store
from benchkit.store.tables import load


class MeasuredServer(Frozen):
    """One server: geometric means over its trials, of the usable ones where there are any; None where unknown."""

    cell_id: str
    label: str
    blocks: int
    rps: float | None = None
    low: float | None = None
    high: float | None = None
    """95 % interval of the rate over its blocks."""
    latency: dict[str, float | None]
    """Latencies in seconds, by column of `trials`."""
    server_cpu_s_per_request: float | None = None
    limit: str
    """Sentence that says what limits the rate."""
    verdicts: VerdictCounts

    @property
    def sentence(self) -> str:
        """The rate with its interval."""
        if self.rps is None:
            return f"{self.label} has no result: no trial of it ended with a rate."
        interval = "" if self.low is None else f", {units.rate(self.low)} to {units.rate(self.high)}"
        blocks = units.counted(self.blocks, "block")
        return (
            f"{self.label} serves {units.requests_per_s(self.rps)}{interval} ({blocks}); it is compared with nothing."
        )


def measure_server(data: RunData, store: Store) -> MeasuredServer:
    """Return the results of the only cell of a run."""
    view = next(view for view in cell_views(data.manifest) if view.unsupported is None)
    trials = data.trials[is_comparable(data.trials)]
    rate = _value(data, RPS, view.cell_id)
    findings, skipped = (load(table, store=store, run_id=data.manifest.run_id) for table in ("verdicts", "unchecked"))
    return MeasuredServer(
        cell_id=view.cell_id,
        label=view.label,
        blocks=rate.blocks,
        rps=rate.ratio,
        low=rate.low,
        high=rate.high,
        latency={name: _value(data, name, view.cell_id).ratio for name in PERCENTILES},
        server_cpu_s_per_request=_value(data, CPU, view.cell_id).ratio,
        limit=describe_limit(trials, findings, skipped),
        verdicts=count_verdicts(trials),
    )


def _value(data: RunData, metric: str, cell_id: str) -> Ratio:
    """Return a metric over the usable trials of a cell; over all of them where none is usable."""
    usable = value_alone(take_samples(data.trials, metric, data.exclusions), cell_id, data.alpha)
    return usable if usable.blocks else value_alone(take_samples(data.trials, metric), cell_id, data.alpha)
