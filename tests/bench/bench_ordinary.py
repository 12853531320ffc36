"""Ordinary servers on an ordinary machine: POST, answers that vary, and another program on the cores.

`test_known_differences` compares pairs whose work differs by a known factor, beside a loop that takes a third of a
core. `test_equal_servers` compares each server with itself. `BENCHKIT_ORDINARY_RUNS` and `BENCHKIT_ORDINARY_EQUAL`
are the numbers of runs of all kinds together.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.bench.real_runs import table

FOLDER = Path(__file__).parent / "ordinary"
RUNS = int(os.environ.get("BENCHKIT_ORDINARY_RUNS", "12"))
EQUAL_RUNS = int(os.environ.get("BENCHKIT_ORDINARY_EQUAL", "40"))
LIMIT_S = 90.0
"""Time from the shell to the sentence."""
ANSWERED = 0.9
"""Share of runs that have an interval in time, and are right."""
LARGEST_SHOWN = 0.05
"""Share of comparisons of equal servers that may show a difference."""
ROUNDS = {"python": 20_000, "node": 60_000, "java": 300_000, "perl": 4_000}
"""Steps of a request's loop: most of its CPU time, so that twice as many serve between 0.5 and 0.75 times the requests.

CPU time of a request with no step, and of the loop, is by `/proc/PID/stat` over 3,000 requests of hey. In microseconds
Python takes 530 and 1,250, Node 110 and 270, Java 250 and 1,400, Perl 60 and 160.
"""
FACTOR, TRUE_RATIO = 2, (0.5, 0.75)
BUSY = "import time\nwhile True:\n    end = time.perf_counter() + 0.01\n    while time.perf_counter() < end: pass\n    time.sleep(0.02)"
"""A loop that takes a third of a core."""


def command(kind: str, rounds: int, classes: Path) -> str:
    program = {
        "python": f"{sys.executable} {FOLDER / 'server.py'}",
        "node": f"node {FOLDER / 'server.js'}",
        "java": f"java -cp {classes} Server",
        "perl": f"perl {FOLDER / 'server.pl'}",
    }[kind]
    return f"{program} {{port}} {rounds}"


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("classes")
    subprocess.run(["javac", "-d", folder, FOLDER / "Server.java"], check=True)
    return folder


@contextmanager
def third_of_a_core() -> Iterator[None]:
    with subprocess.Popen([sys.executable, "-c", BUSY]) as busy:
        try:
            yield
        finally:
            busy.terminate()


def versus(store: Path, commands: Sequence[str], *options: str) -> tuple[float, dict[str, Any]]:
    """Return the time that a comparison took, in seconds, and its document."""
    began_s = time.monotonic()
    request = ("--method", "POST", "--body", '{"n": 12}', "--header", "Content-Type: application/json")
    benchkit = str(Path(sys.executable).with_name("benchkit"))
    done = subprocess.run(
        [benchkit, "versus", *commands, "--names", "one,other", "--json", "-q", *request, *options],
        env={**os.environ, "BENCHKIT_STORE": str(store)},
        capture_output=True,
        text=True,
        check=False,
    )
    took_s = time.monotonic() - began_s
    return took_s, json.loads(done.stdout) if done.stdout else {"error": done.stderr}


def ratio_of(document: dict[str, Any]) -> dict[str, Any]:
    """Return the ratio of the second server; without figures where there is none."""
    return next((each["ratio"] for each in document.get("servers", ()) if each["ratio"]), {})


def agrees(low: float, high: float) -> bool:
    """Return True if an interval excludes equality, and reaches into the range of the true ratio."""
    return low <= TRUE_RATIO[1] and TRUE_RATIO[0] <= high < 1


def test_known_differences(tmp_path: Path, classes: Path) -> None:
    rows, right = [], 0
    with third_of_a_core():
        for kind in itertools.islice(itertools.cycle(ROUNDS), RUNS):
            commands = [command(kind, rounds, classes) for rounds in (ROUNDS[kind], FACTOR * ROUNDS[kind])]
            took_s, document = versus(tmp_path / "store", commands)
            ratio = ratio_of(document)
            interval = None if ratio.get("low") is None else (float(ratio["low"]), float(ratio["high"]))
            is_right = interval is not None and took_s <= LIMIT_S and agrees(*interval)
            right += is_right
            answer = document.get("answer", {})
            reasons = "; ".join(answer.get("reasons", ())) or document.get("error", "")
            shown = "none" if interval is None else f"{ratio['ratio']:.3f} [{interval[0]:.3f}, {interval[1]:.3f}]"
            rows.append(
                (kind, shown, f"{took_s:.0f} s", str(answer.get("trust")), "yes" if is_right else f"no: {reasons}")
            )
            print(" | ".join(rows[-1]), flush=True)
    print("\n" + table(("server", "twice the work", "took", "believed", "right"), rows))
    assert right >= ANSWERED * RUNS


def test_equal_servers(tmp_path: Path, classes: Path) -> None:
    shown, answered, ratios = 0, 0, []
    for kind in itertools.islice(itertools.cycle(ROUNDS), EQUAL_RUNS):
        same = command(kind, ROUNDS[kind], classes)
        _, document = versus(tmp_path / "store", [same, f"{same} "], "--duration", "25")
        ratio = ratio_of(document)
        answered += ratio.get("low") is not None
        shown += ratio.get("outcome") in {"higher", "lower"}
        ratios.append(f"{kind} {ratio.get('ratio')} {ratio.get('outcome')} {document.get('error', '')}")
        print(ratios[-1], flush=True)
    print(f"\nequal servers: {shown} of {EQUAL_RUNS} shown to differ, {answered} with an interval")
    assert answered >= ANSWERED * EQUAL_RUNS
    assert shown <= LARGEST_SHOWN * EQUAL_RUNS
