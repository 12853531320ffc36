"""Computation of the estimates of a run from its trials."""

from __future__ import annotations

import math
from collections.abc import Iterator

from benchkit.comparison.ratios import block_ratios, sequential_ratios
from benchkit.comparison.run_data import RunData
from benchkit.models.design import controlled
from benchkit.run_history.conditions import conditions_of
from benchkit.run_history.estimates import Estimate, RunEstimates
from benchkit.stats.cell_pairs import baseline_pairs, scenario_baseline
from benchkit.stats.inference import MIN_BLOCKS, serial_inflation
from benchkit.stats.samples import Samples, describe_exclusions, take_samples


def estimates_of(data: RunData, metric: str) -> RunEstimates:
    """Return the estimates of a metric of a run: of each cell relative to its baseline, and of its values."""
    manifest = data.manifest
    samples = take_samples(data.trials, metric, data.exclusions)
    apart = take_samples(data.trials, metric, data.exclusions_between_runs)
    tools = tuple(sorted({str(tool) for tool in data.trials["tool"].dropna()}))
    commits = {
        cell.cell_id: tuple(dict.fromkeys(build.commit for build in cell.builds.values() if build.commit is not None))
        for cell in manifest.cells
    }
    return RunEstimates(
        run_id=manifest.run_id,
        started_at=manifest.started_at,
        status=manifest.status,
        scale=manifest.scale,
        conditions=conditions_of(manifest, tools),
        tools=tools,
        tags=manifest.tags,
        code=manifest.code,
        is_imported=manifest.is_imported,
        alpha=data.alpha,
        estimates=tuple(
            estimate.model_copy(update={"commits": commits[estimate.cell_id]})
            for estimate in (*_ratio_estimates(data, samples), *_value_estimates(data, apart))
        ),
    )


def _ratio_estimates(data: RunData, samples: Samples) -> Iterator[Estimate]:
    cells = data.manifest.cells
    pairs, _ = baseline_pairs(cells, scenario_baseline(data.manifest.scenario, cells))
    estimate = sequential_ratios if data.design == "sequential" else block_ratios
    for ratio in estimate(samples, [pair for pair in pairs if not pair.control]):
        yield Estimate(
            cell_id=ratio.cell_id,
            baseline=ratio.baseline,
            blocks=ratio.blocks,
            log=None if ratio.ratio is None else math.log(ratio.ratio),
            error=ratio.log_error,
            df=ratio.df,
            remark=ratio.reason or describe_exclusions(ratio.exclusions),
        )


def _value_estimates(data: RunData, samples: Samples) -> Iterator[Estimate]:
    """Yield the mean logarithm of each cell, with a variance that allows for neighbouring blocks being alike."""
    inflation = serial_inflation([samples.logs])
    for cell in data.manifest.cells:
        if cell.unsupported is not None or controlled(cell.cell_id) is not None:
            continue
        logs = samples.known(cell.cell_id)
        has_interval = len(logs) >= MIN_BLOCKS
        few = f"{len(logs)} usable trials; an interval needs {MIN_BLOCKS}"
        remarks = (*([] if has_interval else [few]), describe_exclusions(samples.excluded_of(cell.cell_id)))
        yield Estimate(
            cell_id=cell.cell_id,
            blocks=len(logs),
            log=float(logs.mean()) if len(logs) else None,
            error=math.sqrt(float(logs.var(ddof=1)) * inflation / len(logs)) if has_interval else None,
            df=len(logs) - 1.0 if has_interval else None,
            remark="; ".join(filter(None, remarks)),
        )
