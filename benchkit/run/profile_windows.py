"""The windows of profiles that a run finds itself, from the CPU times of requests in its measured trials. Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from statistics import fmean

from benchkit import units
from benchkit.models.rows import TrialRow
from benchkit.plan.design import compared_pairs
from benchkit.plan.model import PlannedCell, RunPlan
from benchkit.scenario.profile_length import ServerCost, needed_window_s
from benchkit.scenario.trial_order import PlannedTrial, ProfilePass, is_of_pass


class ProfileWindows:
    """The CPU time per request in the measured trials of a run, and the window that its profiles need.

    A profile without a duration of its own is as long as its load. It is longer where a part that is a tenth of two
    cells' difference needs more samples for a narrow interval (`benchkit.scenario.profile_length`). The pass takes no
    longer than the measured trials.
    """

    def __init__(self, rows: Iterable[TrialRow] = ()) -> None:
        self._costs: defaultdict[str, list[ServerCost]] = defaultdict(list)
        self._window: tuple[float, str | None] | None = None
        for row in rows:
            self.add(row)

    def add(self, row: TrialRow) -> None:
        """Add a trial that has ended; only measured ones matter."""
        cpu_s = row.server_cpu_s_per_request
        if row.kind == "measure" and cpu_s and row.rps:
            self._costs[row.cell_id].append(ServerCost(cpu_s, cpu_s * row.rps))

    def cell_of(self, cell: PlannedCell, trial: PlannedTrial, plan: RunPlan) -> tuple[PlannedCell, str | None]:
        """Return the cell of a trial with the window of its profile, and a note where no window is long enough."""
        profile, planned = plan.experiment.scenario.profile, plan.cell_of(trial)
        is_profile = is_of_pass(trial.kind, trial.cell_id) and any(
            planned is each for each in plan.observed.get("profile", ())
        )
        if profile is None or not is_profile or profile.duration_s is not None or cell.load.duration_s is None:
            return cell, None
        if self._window is None:  # one for all profiles of the run
            self._window = self._find(plan, profile)
        window_s, note = self._window
        if window_s <= cell.load.duration_s:
            return cell, note
        window = {"duration_s": window_s}
        generators = tuple(each.with_window(window) for each in cell.generators)
        return replace(cell, load=cell.load.model_copy(update=window), generators=generators), note

    def _find(self, plan: RunPlan, profile: ProfilePass) -> tuple[float, str | None]:
        """Return the window, 0 for the load's own, and the note."""
        costs = {name: _mean(each) for name, each in self._costs.items()}
        needed_s = max(
            (
                needed_window_s(costs[pair.baseline], costs[pair.cell_id], profile.blocks, profile.frequency_hz)
                for pair in compared_pairs(plan.experiment, plan.cells)
                if not pair.control and pair.baseline in costs and pair.cell_id in costs
            ),
            default=0.0,
        )
        own_s = [cell.load.duration_s or 0.0 for cell in plan.observed["profile"]]
        measured_s = [cell.load.duration_s or 0.0 for cell in plan.cells if cell.cell_id in costs]
        most_s = math.floor(plan.blocks * fmean(measured_s or [0.0]) / (2 * profile.blocks))
        if needed_s <= max(most_s, *own_s):
            return math.ceil(needed_s), None
        more = "no time is enough" if math.isinf(needed_s) else f"they need {units.duration(needed_s)}"
        note = (
            f"Profiles of {units.duration(max(most_s, *own_s))} are too short for a narrow interval of a tenth of "
            f"each difference: {more}. `--set profile.duration_s=…` sets another window."
        )
        return most_s, note


def _mean(costs: Iterable[ServerCost]) -> ServerCost:
    cpu_s, cores = zip(*costs, strict=True)
    return ServerCost(fmean(cpu_s), fmean(cores))
