"""Disturbances that all cells of sliced blocks share: the ratio stays as it is without them."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from benchkit.comparison.compare import compare
from benchkit.comparison.ratios import Ratio
from tests.bench.real_runs import interval
from tests.faults.conftest import FaultLabs
from tests.faults.disturbances import busy_loop, cpus_of, quota
from tests.faults.fault_lab import FaultLab
from tests.faults.faults import sliced

RUNS = int(os.environ.get("BENCHKIT_DISTURBED_RUNS", "0"))
"""Disturbed runs: each takes 40 s, so that only `make faults` makes any."""

pytestmark = [pytest.mark.skipif(RUNS == 0, reason="takes minutes: make faults")]

DECISIVE_RUNS = 20
LARGEST_LOSS = 0.05
"""Share of disturbed runs whose ratio may differ from the undisturbed one: 3 of 60."""
BLOCKS, UNDISTURBED_BLOCKS = 6, 20
SLICE_S, WINDOW_S = 0.5, 3
"""Lengths of a slice and of the measured time of a cell in a block: six slices.

A slice has five periods of the quota. Of shorter ones each gets two or three bursts of CPU time. Its requests in flight
at the end, which a server under a quota answers in the next one, are above the limit of `busy-neighbour`.
"""

DISTURBANCES: dict[str, Callable[[FaultLab], AbstractContextManager[None]]] = {
    "a busy loop on the server's core": lambda fault_lab: busy_loop(cpus_of(fault_lab.lab, "sut")[0]),
    "a CPU quota of half a core on the server's host": lambda fault_lab: quota(fault_lab.lab, "sut", 0.5),
}


@pytest.mark.parametrize("name", DISTURBANCES)
def test_shared_disturbance_leaves_the_ratio(name: str, fault_labs: FaultLabs) -> None:
    """Compare the ratio of each disturbed run with a longer undisturbed run's.

    Their difference must lie within the interval of a difference: both ratios are measured. A disturbed run without an
    interval counts as different.
    """
    fault_lab = fault_labs("plain")
    undisturbed = ratio_of_run(fault_lab, UNDISTURBED_BLOCKS)
    assert undisturbed.low is not None, undisturbed.reason
    print(f"{name}: undisturbed {interval(undisturbed)} in {undisturbed.blocks} blocks")  # noqa: T201 - like the others
    within = 0
    for _ in range(RUNS):
        with DISTURBANCES[name](fault_lab):
            disturbed = ratio_of_run(fault_lab, BLOCKS)
        is_within = disturbed.low is not None and agree(disturbed, undisturbed)
        within += is_within
        print(  # noqa: T201 - what `make faults` is for
            f"{name}: {interval(disturbed)} in {disturbed.blocks} blocks: {'equal' if is_within else 'different'}"
        )
    print(f"{name}: {within} of {RUNS} ratios are the undisturbed one")  # noqa: T201
    if RUNS >= DECISIVE_RUNS:
        assert within >= (1 - LARGEST_LOSS) * RUNS


def agree(one: Ratio, other: Ratio) -> bool:
    """Return True if two ratios differ by no more than the interval of their difference; both have an interval."""
    assert one.ratio is not None, one.reason
    assert other.ratio is not None, other.reason
    return abs(math.log(one.ratio / other.ratio)) <= math.hypot(half_width(one), half_width(other))


def half_width(ratio: Ratio) -> float:
    """Return half the width of the interval of a log-ratio; fail if there is none."""
    assert ratio.low is not None, ratio.reason
    assert ratio.high is not None, ratio.reason
    return math.log(ratio.high / ratio.low) / 2


def ratio_of_run(fault_lab: FaultLab, blocks: int) -> Ratio:
    """Run two servers of which one has more work, in sliced blocks, and return their ratio.

    Both have so much work that the load tool is not the limit. So the other costs of a request, which a quota changes,
    hardly matter. With a quarter of these loops the ratio was 0.902 [0.895, 0.909] without a quota and 0.868 [0.860,
    0.876] with one (20 blocks each). The ratio of CPU time was the same. With these loops it is 0.869 and 0.867.
    """
    stacks = {
        name: {"entry": "app", "services": {"app": {"backend": "nethttp", "listen": 8080, "work": work}}}
        for name, work in (("go", "loop:400000"), ("more", "loop:480000"))
    }
    scenario = {**sliced({}, "more", duration_s=WINDOW_S), "stacks": stacks, "slice_s": SLICE_S, "blocks": blocks}
    trials = fault_lab.run(scenario)
    (ratio,) = compare(trials[0].run_id, store=fault_lab.store.path).ratios
    return ratio
