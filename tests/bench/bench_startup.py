"""Start-up times: a command that only prints help, and a set-up that finds nothing to do."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
BENCHKIT = str(Path(sys.executable).with_name("benchkit"))
PAIRS = 25


def seconds(argv: Sequence[str]) -> float:
    """Return the wall time of a whole process."""
    started = time.perf_counter()
    subprocess.run(argv, cwd=ROOT, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - started


def test_help_takes_at_most_twice_as_long_as_importing_typer() -> None:
    ours, theirs = [BENCHKIT, "--help"], [sys.executable, "-c", "import typer"]
    seconds(ours), seconds(theirs)  # the first start of each compiles modules
    pairs = [(seconds(ours), seconds(theirs)) for _ in range(PAIRS)]
    ratio = statistics.median(our / their for our, their in pairs)
    help_ms, typer_ms = (statistics.median(times) * 1e3 for times in zip(*pairs, strict=True))
    print(
        f"\nbenchkit --help {help_ms:.0f} ms, import typer {typer_ms:.0f} ms: median ratio {ratio:.2f} of {PAIRS} pairs"
    )
    assert ratio <= 2.0


def test_a_second_start_is_ready_within_a_second() -> None:
    times = [seconds(["make", "--silent", "system"]) for _ in range(10)]
    print(f"\nmake system, with nothing to do: median {statistics.median(times):.2f} s, at most {max(times):.2f} s")
    assert max(times) < 1.0
