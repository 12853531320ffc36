"""Load tools that hold a rate: the highest rate of one process on one core, and how late it sends at each rate.

The lag is measured alike for all tools, from the ordered instants at which requests were sent. The k-th is compared
with k intervals of the target rate after the first. Bursts are lag too: a request of a burst is sent early or late.

oha and wrk2 are measured where BENCHKIT_OHA and BENCHKIT_WRK2 name their programs (`cargo install oha`; `make` in
giltene/wrk2). No package of Debian has them, and benchkit does not run wrk2. It states no instants of its requests: its
achieved rate is the answers that it counts, and its lag is unknown.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from benchkit.loadtools.registry import get_tool
from benchkit.loadtools.vegeta.command import PROGRAM
from benchkit.models.load import Load
from benchkit.services.go_build import build
from tests.bench.bench_slices import TARGET, server
from tests.bench.real_runs import table
from tests.support.loadtools.fixtures import GOARCH

__all__ = ["server"]

RATES = (2_000, 5_000, 10_000, 20_000, 30_000)
CONNECTIONS = 32
WINDOW_S = 3.0
WITHIN = 0.99
"""Share of the target rate that counts as held."""

Instants = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Held:
    """One load at a rate."""

    achieved: float
    lag_p50_s: float | None
    lag_p99_s: float | None
    cores: float
    """CPU time of the tool, per second of the window."""


def _vegeta(rows: Path) -> Instants:
    """Return the instants of vegeta's binary stream, by its own conversion."""
    program = build(PROGRAM.module, goos="linux", goarch=GOARCH, package=PROGRAM.package)
    encoded = subprocess.run([program, "encode", "-to", "csv", rows], stdout=subprocess.PIPE, check=True).stdout
    return np.array([int(line.partition(b",")[0]) for line in encoded.splitlines()]) / 1e9


def _h2load(rows: Path) -> Instants:
    columns = (line.split(b"\t") for line in rows.read_bytes().splitlines())
    return np.array([int(each[0]) for each in columns if len(each) >= 3 and each[0].isdigit()]) / 1e6


def _hey(rows: Path) -> Instants:
    """Return the offsets of the rows of benchkit's template."""
    lines = rows.read_bytes().partition(b"\n--- ")[0].splitlines()[1:]
    return np.array([float(line.rpartition(b",")[2]) for line in lines if line])


def _openloop(rows: Path) -> Instants:
    """Return the instants of openloop's rows, in which the first eight of 34 bytes have them."""
    layout = np.dtype([("start", "<i8"), ("others", "V26")])
    return np.fromfile(rows, layout)["start"] / 1e9


def _oha(rows: Path) -> Instants:
    """Return the offsets of the requests in oha's CSV, whose first column has them in seconds."""
    lines = rows.read_bytes().splitlines()[1:]
    return np.array([float(line.partition(b",")[0]) for line in lines if line])


INSTANTS: dict[str, Callable[[Path], Instants]] = {
    "openloop": _openloop,
    "vegeta": _vegeta,
    "h2load": _h2load,
    "hey": _hey,
}

COUNTED = re.compile(rb"^\s*(\d+) requests in ([\d.]+)s", re.MULTILINE)
"""wrk2's count of answers and its time."""


def _others() -> Iterator[str]:
    yield from (name for name in ("oha", "wrk2") if os.environ.get(f"BENCHKIT_{name.upper()}"))


def _hold_by_other(name: str, rate: int, folder: Path) -> Held:
    """Run oha or wrk2 at a rate; both get one thread."""
    rows, program = folder / "rows", os.environ[f"BENCHKIT_{name.upper()}"]
    seconds, connections = f"{WINDOW_S:.0f}s", str(CONNECTIONS)
    argv = {
        "oha": ["-z", seconds, "-c", connections, "-q", str(rate), "--no-tui", "--output-format", "csv"],
        "wrk2": ["-d", seconds, "-c", connections, "-R", str(rate), "-t", "1"],
    }[name]
    cores = _run([program, *argv, f"{TARGET.origin}/"], folder, rows)
    if name == "oha":
        return _timed(_oha(rows), rate, cores)
    counted = COUNTED.search(rows.read_bytes())
    assert counted is not None
    return Held(int(counted[1]) / float(counted[2]), None, None, cores)


def _hold(name: str, rate: int, folder: Path) -> Held:
    """Run a tool at a rate on the last CPU; its rows go to a file in memory, which costs it what a pipe costs."""
    tool = get_tool(name)
    load = Load(tool=name, connections=CONNECTIONS, duration_s=WINDOW_S, rate=rate)
    argv = tool.command(load, TARGET)
    if tool.go_program is not None:
        program = tool.go_program
        argv[0] = str(build(program.module, goos="linux", goarch=GOARCH, package=program.package))
    for file, content in tool.files(load, TARGET).items():
        (folder / file).write_bytes(content)
    rows = folder / "rows"
    cores = _run(argv, folder, rows)
    return _timed(INSTANTS[name](rows), rate, cores)


def _run(argv: list[str], folder: Path, rows: Path) -> float:
    """Run a tool on the last CPU with its output in a file, and return the cores that it used.

    Output is appended to an empty file: h2load opens it a second time for its rows. It would write its text over the
    first of them, and leave a part of one.
    """
    cpu = max(os.sched_getaffinity(0))
    rows.unlink(missing_ok=True)
    with rows.open("ab") as output:
        before = os.times()
        subprocess.run(["taskset", "-c", str(cpu), *argv], cwd=folder, stdout=output, check=True)
        after = os.times()
    return (after.children_user + after.children_system - before.children_user - before.children_system) / WINDOW_S


def _timed(instants: Instants, rate: int, cores: float) -> Held:
    """Return the rate and the lag of requests sent at these instants."""
    sent = np.sort(instants)
    late = sent - sent[0] - np.arange(len(sent)) / rate
    lag = late - late.min()
    return Held(
        achieved=(len(sent) - 1) / (sent[-1] - sent[0]),
        lag_p50_s=float(np.percentile(lag, 50)),
        lag_p99_s=float(np.percentile(lag, 99)),
        cores=cores,
    )


def _folder(tmp_path: Path) -> Path:
    memory = Path("/dev/shm")  # noqa: S108 - rows of a load must not wait for a disk
    return memory if memory.is_dir() else tmp_path


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where there is one, empty again afterwards."""
    own = _folder(tmp_path) / f"bench-generators-{os.getpid()}"
    own.mkdir()
    yield own
    for file in own.iterdir():
        file.unlink()
    own.rmdir()


@pytest.mark.usefixtures("server")
def test_rates_on_one_core(folder: Path) -> None:
    rows = []
    highest: dict[str, tuple[int, Held]] = {}
    for name in (*INSTANTS, *_others()):
        hold = _hold if name in INSTANTS else _hold_by_other
        hold(name, RATES[0], folder)  # builds what has to be built
        for rate in RATES:
            held = hold(name, rate, folder)
            if held.achieved >= WITHIN * rate:
                highest[name] = rate, held
            rows.append(
                [
                    name,
                    f"{rate:,}",
                    f"{held.achieved:,.0f}",
                    _shown(held.lag_p50_s),
                    _shown(held.lag_p99_s),
                    f"{held.cores:.2f}",
                ]
            )
    print("\n" + table(["tool", "target rate", "achieved", "lag p50", "lag p99", "cores"], rows))
    summary = [[name, f"{rate:,}", _shown(held.lag_p99_s)] for name, (rate, held) in highest.items()]
    print("\n" + table(["tool", "highest rate held within 1 %", "lag p99 there"], summary))
    assert INSTANTS.keys() <= highest.keys(), "a tool holds no rate at all"


def _shown(lag_s: float | None) -> str:
    return "unknown" if lag_s is None else f"{1000 * lag_s:.2f} ms"
