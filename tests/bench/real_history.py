"""A history made for real: a Go server over 12 commits on labs of this machine, and its pages.

    python -m tests.bench.real_history FOLDER [--commits N] [--budget SECONDS]

Two commits, the 5th and the 9th, make the server some 10 % slower. Run 8 is on a lab with slower links, run 11 beside a
busy loop on the server's CPU. Prints the history; FOLDER gets the store, the figures and the site. It takes some ten
minutes, in which nothing else may run on the machine; with fewer commits and a smaller budget for each, less.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from benchkit.lab.lab import Lab, down, up
from benchkit.lab.spec import LabHost, LabSpec
from tests.qualify.faults.disturbances import busy_loop, cpus_of

COMMITS, SLOWER = 12, (5, 9)
OTHER_LAB, DISTURBED = 8, 11
BUDGET_S = 40
LINK_BPS = 1e9
"""Rate of the links of the other lab: slower than those without a limit, and many times what the servers send."""
LOOPS = 200_000
"""Additions of a request: most of its time, so that one tenth more of them is nearly one tenth of it."""
FACTOR = 1.13
"""Growth of the additions of a slower commit: some 10 % of the rate, as the rest of a request takes a fifth of it."""

SERVER = """\
package main

import (
\t"flag"
\t"net/http"
)

// Change {change}.
const loops = {loops}

func main() {{
\tlisten := flag.String("listen", ":8080", "address")
\tflag.Parse()
\thttp.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {{
\t\tsum := uint64(0)
\t\tfor i := uint64(0); i < loops; i++ {{
\t\t\tsum += i ^ sum
\t\t}}
\t\tif sum == 1 {{
\t\t\tw.WriteHeader(http.StatusTeapot)
\t\t}}
\t\tw.Write([]byte("hello\\n"))
\t}})
\tpanic(http.ListenAndServe(*listen, nil))
}}
"""
SCENARIO = """\
name: server-history
title: A Go server over its commits
question: Which commit made the server slower?
factors: {ref: [v1, HEAD]}
stacks:
  server:
    entry: app
    services:
      app:
        backend: command
        listen: 8080
        build: {run: "go build -o {out}/server ."}
        source: {git: ., ref: $ref}
        run: "{out}/server -listen :{port}"
load: {tool: h2load, connections: 16, duration_s: 2, warmup_s: 0.5}
design: sliced
blocks: 20
until: {precision: 0.02, budget_s: BUDGET}
"""


class Repository:
    """The git repository of the server."""

    def __init__(self, folder: Path, budget_s: int) -> None:
        """Create it with one commit, tagged `v1`, and a scenario whose runs may take that long."""
        self.folder = folder
        folder.mkdir(parents=True)
        self._git("init", "--quiet", "--initial-branch=main")
        (folder / "go.mod").write_text("module server\n\ngo 1.21\n")
        (folder / "scenario.yaml").write_text(SCENARIO.replace("BUDGET", str(budget_s)))
        self.commit(0, LOOPS)
        self._git("tag", "v1")

    def commit(self, change: int, loops: int) -> None:
        """Commit the server with this number of additions a request."""
        (self.folder / "main.go").write_text(SERVER.format(change=change, loops=loops))
        self._git("add", "--all")
        self._git("commit", "--quiet", "--message", f"Change {change}, {loops} additions")

    def _git(self, *arguments: str) -> None:
        identity = ["-c", "user.name=benchkit", "-c", "user.email=benchkit@localhost"]
        subprocess.run(["git", *identity, *arguments], cwd=self.folder, check=True)


def benchkit(*arguments: str | Path) -> str:
    """Run the command line, and return what it prints."""
    program = Path(sys.executable).parent / "benchkit"
    return subprocess.run([program, *arguments], check=True, stdout=subprocess.PIPE, text=True).stdout


@contextlib.contextmanager
def lab_named(name: str, link_bps: float | None = None) -> Iterator[Lab]:
    """Start a lab with links of this rate, and remove it at the end."""
    hosts = tuple(LabHost(name=role, roles=(role,), link_bps=link_bps) for role in ("sut", "load"))
    try:
        yield up(LabSpec(name=name, hosts=hosts), temporary=True)
    finally:
        down(name)


def make_history(folder: Path, commits: int, budget_s: int) -> None:
    """Run every commit, and write store, figures and site."""
    repository, loops = Repository(folder / "repository", budget_s), LOOPS
    store, own = folder / "store", f"history-{os.getpid()}"
    with lab_named(own) as lab:
        for change in range(1, commits + 1):
            if change in SLOWER:
                loops = round(loops * FACTOR)
            repository.commit(change, loops)
            with contextlib.ExitStack() as stack:
                name = own
                if change == OTHER_LAB:
                    name = f"{own}-other"
                    stack.enter_context(lab_named(name, LINK_BPS))
                if change == DISTURBED:
                    stack.enter_context(busy_loop(cpus_of(lab, "sut")[0]))
                benchkit(
                    "run", repository.folder / "scenario.yaml", "--tag", f"change={change}", "--lab", name,
                    "--store", store, "--quiet",
                )  # fmt: skip
            print(f"run {change} of {commits}", file=sys.stderr)
    print(benchkit("history", "server-history", "--store", store, "-o", folder / "figures"))
    print(benchkit("report", "--store", store, "-o", folder / "site"))
    found = json.loads(benchkit("history", "server-history", "--store", store, "--json"))
    tags = {point["run_id"]: int(point["tags"]["change"]) for point in found["series"][0]["points"]}
    shown = [tags[shift["first_run"]] for shift in found["series"][0]["shifts"]]
    slower = [change for change in SLOWER if change <= commits]
    print(f"shifts with changes {shown}; the server became slower with {slower}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--commits", type=int, default=COMMITS)
    parser.add_argument("--budget", type=int, default=BUDGET_S)
    given = parser.parse_args()
    make_history(given.folder.absolute(), given.commits, given.budget)
