"""Overhead of a trial beyond the load tool's runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from statistics import median

from benchkit.files import BACKENDS
from benchkit.store.store import Store
from tests.support.builders import load, write_scenario

TRIALS = 20
LIMIT_S = 0.15
ASKED_S = 2.0
"""Durations of warm-up and window at smoke scale."""
LIMIT_OF_TLS_S = 0.05
"""Most that a trial over TLS may take longer than one without."""
LIMIT_OF_COMMAND = 1.1
"""Largest ratio of the overhead of a server given by its command line to the same one as a shipped backend."""


def test_overhead_of_a_warm_trial(tmp_path: Path) -> None:
    """Measure the median overhead of 20 trials of the quickstart in blocks, with fresh servers: at most 0.15 s.

    The overhead is the time in the journal from the start of a trial to the line that it is stored. The lifetimes of
    the load tool's processes are subtracted. As wrk looks at its clock every 100 ms, it ends up to 0.1 s late, here as
    when it runs alone. That is wrk's, and printed beside.
    """
    overhead = _overhead_by_stack(
        tmp_path, "quickstart", "--scale", "smoke", "--set", f"blocks={TRIALS // 2 + 1}", "--set", "design=blocks"
    )
    everything = [seconds for values in overhead.values() for seconds in values]
    print(
        f"overhead of a warm trial: median {median(everything):.3f} s of {len(everything)} trials (limit {LIMIT_S} s)"
    )
    assert len(everything) >= TRIALS
    assert median(everything) <= LIMIT_S


def test_overhead_of_a_command(tmp_path: Path) -> None:
    """Compare the overhead of 20 trials of nethttp as a command with nethttp as the shipped backend."""
    run = "./nethttp -listen {host}:{port} -admin unix:{folder}/_admin.sock -work none"
    build = {"run": "go build -o {out}/nethttp .", "from": str(BACKENDS / "nethttp")}
    services = {
        "shipped": {"backend": "nethttp", "listen": 8080},
        "command": {"backend": "command", "listen": 8080, "run": run, "build": build},
    }
    scenario = write_scenario(
        tmp_path,
        stacks={name: {"entry": "app", "services": {"app": service}} for name, service in services.items()},
        factors={"stack": [*services]},
        load=load(warmup_s=1),
        blocks=TRIALS + 1,
    )
    overhead = _overhead_by_stack(tmp_path / "store", str(scenario))
    ratio = median(overhead["command"]) / median(overhead["shipped"])
    print(f"overhead of a command over the shipped backend's: {ratio:.3f} (limit {LIMIT_OF_COMMAND})")
    assert [len(values) for values in overhead.values()] == [TRIALS, TRIALS]
    assert ratio <= LIMIT_OF_COMMAND


def test_overhead_of_tls(tmp_path: Path) -> None:
    """Compare the overhead of 20 trials of nethttp over TLS with nethttp without: at most 0.05 s more."""
    service = {"backend": "nethttp", "listen": 8080}
    scenario = write_scenario(
        tmp_path,
        stacks={
            "plain": {"entry": "app", "services": {"app": service}},
            "tls": {"entry": "app", "services": {"app": {**service, "protocol": "https1"}}},
        },
        factors={"stack": ["plain", "tls"]},
        load=load(warmup_s=1),
        blocks=TRIALS + 1,
    )
    overhead = _overhead_by_stack(tmp_path / "store", str(scenario))
    more = median(overhead["tls"]) - median(overhead["plain"])
    print(f"overhead of a trial over TLS beyond one without: {more:.3f} s (limit {LIMIT_OF_TLS_S} s)")
    assert [len(values) for values in overhead.values()] == [TRIALS, TRIALS]
    assert more <= LIMIT_OF_TLS_S


def _overhead_by_stack(store: Path, *scenario: str) -> dict[str, list[float]]:
    """Run a scenario of two stacks with a warm-up of 1 s on a lab; return the overheads without the first block."""
    program = str(Path(sys.executable).parent / "benchkit")
    environment = os.environ | {"BENCHKIT_STORE": str(store), "BENCHKIT_LAB": f"bench-{os.getpid()}"}
    subprocess.run([program, "lab", "up", "-q"], env=environment, check=True)
    try:
        subprocess.run([program, "run", *scenario, "-q"], env=environment, check=True)
    finally:
        subprocess.run([program, "lab", "down", "-q"], env=environment, check=True)
    (run,) = Store(store).runs()
    whole = wall_times_s(run.path / "journal.jsonl")
    warm = sorted(run.records(), key=lambda record: record.trial_id)[2:]  # the first block also fills the hosts' caches
    overhead: dict[str, list[float]] = {}
    for record in warm:
        seconds = whole[record.trial_id] - record.warmed_up_s - record.window_s
        overhead.setdefault(str(record.levels["stack"]), []).append(seconds)
    for cell, values in overhead.items():
        print(f"{cell}: median {median(values):.3f} s, {min(values):.3f} to {max(values):.3f}, {len(values)} trials")
    late = [record.warmed_up_s + record.window_s - ASKED_S for record in warm]
    print(f"wrk beyond its {ASKED_S:g} s: median {median(late):.3f} s, {min(late):.3f} to {max(late):.3f}")
    return overhead


def wall_times_s(journal: Path) -> dict[str, float]:
    """Return the seconds from the start of each trial until it is stored."""
    started: dict[str, datetime] = {}
    wall: dict[str, float] = {}
    for line in journal.read_text().splitlines():
        event = json.loads(line)
        at = datetime.fromisoformat(event["at"])
        if event["event"] == "trial-started":
            started[event["trial_id"]] = at
        elif event["event"] == "trial-ended":
            wall[event["trial_id"]] = (at - started[event["trial_id"]]).total_seconds()
    return wall
