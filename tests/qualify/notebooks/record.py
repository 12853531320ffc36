"""Measure the scenarios of the published pages again, and replace their recorded runs: `make record`.

    python -m tests.qualify.notebooks.record [--store FOLDER] [--target FOLDER]

The machine has to be quiet for two hours. A second start repeats no run that is done, and resumes one that is not.
Nothing is replaced before all are done. `nginx-upstream-default` says where it looks for a clone of nginx.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from benchkit.store.store import Store, open_store
from tests.qualify.notebooks.record_store import record
from tests.support.paths import ROOT

BENCHKIT = str(Path(sys.executable).with_name("benchkit"))
LAB = ("--lab", "record")
MODULES = ("--host=dev=dev,load", "--host=proxy=proxy", "--host=vcs=vcs", "--host=upstream=upstream")


@dataclass(frozen=True)
class Recording:
    """A scenario to run, and how."""

    scenario: str
    settings: tuple[str, ...] = ()
    lab: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    """Tables that no notebook, page or figure of it shows."""


RECORDINGS = (
    Recording("quickstart"),
    Recording("nginx-upstream-default", without=("telemetry", "latency")),
    # Its claims on the CPU time of Go and of nginx need the samples of both.
    Recording("nginx-vs-go", ("--set=blocks=6", "--profile")),
    Recording("static-files", ("--set=blocks=6",), without=("telemetry",)),
    # A lab has no slow link by itself, and the link to the public proxy is what its cache saves.
    Recording("go-module-proxy", (), (*MODULES, "--link=upstream=10mbit"), ("telemetry", "latency")),
    Recording("nethttp-vs-fasthttp", ("--set=blocks=8",)),
    Recording("node-vs-go", ("--set=blocks=6",)),
    Recording(
        "scheduler-overhead",
        ("--set=factors.server=[nethttp, fasthttp, gnet]", "--set=factors.connections=[200, 15000]"),
        without=("telemetry",),
    ),
)


def run(recording: Recording, store: Path) -> str:
    """Return the run of a scenario that is done: one in the store, or a new one. Raises CalledProcessError."""
    earlier = [each for each in open_store(store).runs() if each.manifest().scenario_name == recording.scenario]
    done = [each.run_id for each in earlier if each.manifest().status == "done"]
    if done:
        return done[-1]
    resumed = ["--resume", earlier[-1].run_id, "--retry-failed"] if earlier else []
    what = resumed or [recording.scenario, *recording.settings]
    subprocess.run([BENCHKIT, "lab", "up", "--quiet", *LAB, *recording.lab], check=True)
    try:
        argv = [BENCHKIT, "run", *what, *LAB, "--wait-idle", "600", "--store", str(store)]
        subprocess.run(argv, check=True)
    finally:
        subprocess.run([BENCHKIT, "lab", "down", "--quiet", *LAB], check=True)
    return run(recording, store)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--store", type=Path, default=ROOT / "build" / "recording")
    parser.add_argument("--target", type=Path, default=ROOT / "notebooks" / "recorded")
    given = parser.parse_args()
    given.store.mkdir(parents=True, exist_ok=True)
    runs = {each: run(each, given.store) for each in RECORDINGS}
    for each, run_id in runs.items():
        record(Store(given.store), Store(given.target), [run_id], each.without)
