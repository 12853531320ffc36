"""Time for a report of 500 cells, 10 trials each with telemetry: the command, the page in a browser, and sorting."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import pytest

from benchkit.store.store import Store
from tests.support.report.fixtures import keep, synthetic_run, watched
from tests.support.report.variants import judged

if TYPE_CHECKING:
    from tests.support.browser import Browser

BENCHKIT = str(Path(sys.executable).with_name("benchkit"))
FACTORS: dict[str, list[str | int | bool]] = {
    "stack": ["go", "nginx", "node", "fasthttp", "gnet"],
    "connections": [16 * n for n in range(1, 101)],
}
BLOCKS = 10
SORT = "document.querySelector('#table-trials thead tr:last-child > :nth-child({column}) button')"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Store with one synthetic run of that size: a trial in sixteen is suspect or invalid, half of these invalid."""
    run = synthetic_run(FACTORS, blocks=BLOCKS)
    doubted = [
        (str(trial_id), *(("shared-cpus", "suspect") if i % 2 else ("link-saturated", "invalid")), ("rps",))
        for i, trial_id in enumerate(run.trials["trial_id"][::16])
    ]
    doubts = judged(run, *doubted)
    telemetry = watched(run).telemetry
    run = replace(doubts, table=lambda name: telemetry if name == "telemetry" else doubts.table(name))
    return keep(run, tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def report(store: Store) -> Path:
    """Report of that run; the fixture also measures the time of the whole command."""
    (run,) = store.runs()
    times = []
    for _ in range(3):
        started = time.perf_counter()
        subprocess.run([BENCHKIT, "report", "latest", "--store", store.path], check=True, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - started)
    path = run.report / "report.html"
    size = path.stat().st_size
    print(f"\nbenchkit report: median {statistics.median(times):.2f} s of 3, {size / 1e6:.2f} MB")
    assert statistics.median(times) <= 10
    assert size <= 5e6
    return path


def test_the_first_paint_takes_at_most_a_second(browser: Browser, report: Path) -> None:
    times = []
    for _ in range(5):
        browser.open(report)
        painted = browser.run("performance.getEntriesByName('first-contentful-paint')[0].startTime")
        times.append(float(painted) / 1000)
    print(f"\nfirst contentful paint: median {statistics.median(times) * 1000:.0f} ms of 5")
    assert statistics.median(times) <= 1


def test_sorting_the_trials_takes_at_most_100_ms(browser: Browser, report: Path) -> None:
    browser.open(report)
    clicked = f"""(() => {{
        const times = [];
        for (const column of [1, 2, 3, 4, 5, 6, 7, 8]) {{
            const began = performance.now();
            {SORT.replace("{column}", "${column}").replace("'", "`")}.click();
            document.body.getBoundingClientRect();
            times.push(performance.now() - began);
        }}
        return times;
    }})()"""
    times = pd.Series(browser.run(clicked))
    print(f"\nsorting 5,000 rows by 8 columns: median {times.median():.0f} ms, most {times.max():.0f} ms")
    assert times.median() <= 100
