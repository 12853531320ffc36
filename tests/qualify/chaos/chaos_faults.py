"""`make chaos`: faults of a few seconds on hosts and on this machine, at random moments; FAULTS=… sets their number."""

from __future__ import annotations

import os
import random
import sys
from collections import Counter
from collections.abc import Callable

import pytest

from benchkit.lab.lab import Lab
from tests.qualify.chaos.chaos_runs import print_counts, time_undisturbed_run
from tests.qualify.chaos.host_faults import KINDS, run_with_fault, small_disks
from tests.qualify.chaos.kit import Bench

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount the small disks that are filled"),
]

FAULTS = int(os.environ.get("BENCHKIT_CHAOS_FAULTS") or 50)
ONLY = os.environ.get("BENCHKIT_CHAOS_KIND") or ""
"""Part of the name of the kinds to inject; empty: all."""


def test_no_trial_is_lost_and_nothing_left_after_faults_of_seconds(new_bench: Callable[[], Bench], lab: Lab) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    sys.stdout.write(f"\nseed {seed}\n")
    rng = random.Random(seed)  # noqa: S311 - moments, no secret
    kinds = [kind for kind in KINDS if ONLY in kind.name]
    counts: Counter[str] = Counter()
    faulty: list[str] = []
    with small_disks(lab, new_bench()) as bench:
        whole_s = time_undisturbed_run(bench)
        for number in range(FAULTS):
            kind = kinds[number % len(kinds)]
            outcome = run_with_fault(kind, bench, rng, whole_s)
            counts[f"{kind.name}: {'ended at once' if len(outcome.results) == 1 else 'resumed'}"] += 1
            counts["trials retried"] += outcome.retried
            counts["trials lost that could be repeated"] += outcome.lost
            counts["faults with something left on a host"] += bool(outcome.left)
            counts["messages without host or cause"] += len(outcome.bad_messages)
            counts["other requirements not met"] += len(outcome.problems)
            if outcome.lost or outcome.left or outcome.bad_messages or outcome.problems:
                faulty.append(f"{number} {kind.name}: {outcome}")
                sys.stdout.write(f"{faulty[-1]}\n")
    print_counts(f"{FAULTS} faults of 0.1 to 5 s at random moments of a run of {whole_s:.1f} s", counts)
    assert not faulty, "\n".join(faulty)
