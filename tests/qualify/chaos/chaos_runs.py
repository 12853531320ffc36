"""`make chaos`: runs killed and disconnected at random moments, and counts of their outcomes."""

from __future__ import annotations

import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from benchkit.lab.lab import Lab
from benchkit.store.journal import RunProgress
from tests.qualify.chaos.kit import (
    SCENARIO,
    SHORT_TIMEOUTS,
    Bench,
    check_finished_run,
    diff_snapshots,
    set_link,
    tables_summary,
)

KILLS, ABANDONED, CUTS = 50, 20, 20
LEASE_S, MARGIN_S = 10.0, 5.0
NewBench = Callable[[], Bench]


@pytest.fixture
def rng() -> random.Random:
    """Random numbers with a new seed each time; the seed is printed, so that a moment can be reproduced."""
    seed = random.SystemRandom().randrange(1 << 32)
    sys.stdout.write(f"\nseed {seed}\n")
    return random.Random(seed)  # noqa: S311 - moments, no secret


def time_undisturbed_run(bench: Bench) -> float:
    """Return the seconds from the first line in the journal of an undisturbed run to its end.

    Afterwards the hosts keep what the next runs need.
    """
    for _ in range(2):
        running = bench.start(str(SCENARIO))
        running.journal()
        began = time.monotonic()
        result = running.wait()
        assert result.code == 0, result.err
    return time.monotonic() - began


def progress(bench: Bench) -> RunProgress:
    """Return the progress of the run; an empty one where there is no run."""
    return bench.progress() if bench.runs() and (bench.folder() / "journal.jsonl").exists() else RunProgress()


def test_killed_and_resumed(new_bench: NewBench, undisturbed: Bench, rng: random.Random) -> None:
    whole_s, wanted = time_undisturbed_run(new_bench()), tables_summary(undisturbed.store)
    counts: Counter[str] = Counter()
    for _ in range(KILLS):
        bench = new_bench()
        running = bench.start(str(SCENARIO))
        running.journal()
        time.sleep(rng.uniform(0, whole_s))
        running.kill()
        running.wait()
        before = progress(bench)
        over = set(before.ended)
        if before.status is not None:
            counts["killed when all was over"] += 1
            continue
        second_resume = bench.run("--resume", "latest")
        counts["resumed"] += 1
        assert second_resume.code == 0, second_resume.err
        check_finished_run(
            bench, over, wanted
        )  # raises where a trial is lost, or repeated outside of an interrupted block
        counts["tables equal to an undisturbed run's in shape and counts, and to those rebuilt from raw files"] += 1
        after = bench.progress()
        counts["trials that had ended"] += len(over)
        counts["of those lost"] += len(over - after.ended.keys())
        counts["of those in interrupted blocks, and so repeated"] += len(over & after.interrupted)
    print_counts(f"kill -9 at {KILLS} random moments of a run of {whole_s:.1f} s", counts)


def test_killed_and_abandoned(new_bench: NewBench, rng: random.Random) -> None:
    whole_s = time_undisturbed_run(new_bench())
    before = new_bench().snapshot()
    counts: Counter[str] = Counter()
    longest_s = 0.0
    for _ in range(ABANDONED):
        running = new_bench().start(str(SCENARIO), "--lease", str(LEASE_S))
        running.journal()
        time.sleep(rng.uniform(0, whole_s))
        running.kill()
        killed = time.monotonic()
        running.wait()
        while (
            left := diff_snapshots(before, running.bench.snapshot())
        ) and time.monotonic() < killed + LEASE_S + MARGIN_S:
            time.sleep(0.1)
        longest_s = max(longest_s, time.monotonic() - killed)
        counts["hosts as they were"] += not left
        counts["hosts with something left"] += bool(left)
        assert left == ""
    counts["the last after the kill, in tenths of a second"] = round(longest_s * 10)
    print_counts(f"kill -9 at {ABANDONED} random moments, and no run resumed (lease {LEASE_S:g} s)", counts)


def test_disconnected(new_bench: NewBench, lab: Lab, rng: random.Random) -> None:
    """Half of the connections return after seconds, half never; either way the run's account must add up."""
    whole_s = time_undisturbed_run(new_bench())
    before = new_bench().snapshot()
    counts: Counter[str] = Counter()
    for number in range(CUTS):
        bench = replace(new_bench(), constants=SHORT_TIMEOUTS)
        host, stays = rng.choice(lab.hosts).name, number % 2 == 0
        running = bench.start(str(SCENARIO), "--lease", "4", "--reconnect", "6", "--json")
        running.journal()
        time.sleep(rng.uniform(0, whole_s))
        set_link(lab, host, up=False)
        try:
            if stays:
                result = running.wait()
            else:
                time.sleep(rng.uniform(0.5, 4))
        finally:
            set_link(lab, host, up=True)
        result = result if stays else running.wait()
        check_account(bench, result.code, result.out, counts)
        deadline = time.monotonic() + 15
        while (left := diff_snapshots(before, bench.snapshot())) and time.monotonic() < deadline:
            time.sleep(0.2)
        assert left == ""
    print_counts(f"links cut at {CUTS} random moments", counts)


def check_account(bench: Bench, code: int, out: str, counts: Counter[str]) -> None:
    """Check that the run's summary agrees with its journal, and that each trial has one outcome."""
    known = progress(bench)
    if not out:
        counts["ended with a message before its trials"] += 1
        assert code == 1
        assert not known.ended
        return
    summary = json.loads(out)
    settled = known.ended.keys() - known.interrupted
    failed = (known.failed.keys() | known.skipped.keys()) - known.interrupted
    assert summary["trials"] == len(settled)
    assert summary["failures"].keys() == failed
    assert not settled & failed
    assert len(settled) + len(failed) == 6
    assert code == (1 if failed else 0)
    counts["ended whole" if not failed else "ended with the right account of what failed"] += 1
    counts["trials tried again"] += len(summary["retries"])
    counts["hosts whose restoration was reported as unconfirmed"] += len(summary["restore_unconfirmed"])


def print_counts(what: str, counts: Counter[str]) -> None:
    sys.stdout.write(f"{what}:\n" + "".join(f"  {number:5} {name}\n" for name, number in counts.items()))
