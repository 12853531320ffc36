"""Pulls of in-house Go modules: from the git server and through the proxy, by one developer and by fifty at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import benchkit

HOSTS = ("dev=dev,load", "proxy=proxy", "vcs=vcs", "upstream=upstream")
MODULE = "mycompany.com/go/module1@v1.99.0"
"""Module with a hundred versions."""
BLOCKS = 6
TIMES_FASTER = 5.0
AT_ONCE = 50

Run = Callable[..., Path]


@pytest.fixture(scope="module")
def environment() -> Iterator[dict[str, str]]:
    """Environment of a lab with a developer, a proxy, a git server and an upstream."""
    environment = os.environ | {"BENCHKIT_LAB": f"bench-{os.getpid()}"}
    program = str(Path(sys.executable).with_name("benchkit"))
    hosts = [word for host in HOSTS for word in ("--host", host)]
    subprocess.run([program, "lab", "up", "-q", *hosts], env=environment, check=True)
    yield environment
    subprocess.run([program, "lab", "down", "-q"], env=environment, check=True)


@pytest.fixture
def run(environment: dict[str, str], tmp_path: Path) -> Run:
    """Run the scenario with changed fields, and return the store."""

    def made(scale: str, **fields: object) -> Path:
        program = str(Path(sys.executable).with_name("benchkit"))
        settings = [word for name, value in fields.items() for word in ("--set", f"{name}={json.dumps(value)}")]
        command = [program, "run", "go-module-proxy", "-q", "--scale", scale, "--store", str(tmp_path), *settings]
        subprocess.run(command, env=environment, check=True)
        return tmp_path

    return made


def cell(stack: str, cache: str, developers: int, *, files: bool = False) -> dict[str, object]:
    return {
        "stack": stack,
        "cache": cache,
        "files": files,
        "developers": developers,
        "gone": "none",
        "module": MODULE,
    }


def test_a_warm_pull_through_the_proxy_against_one_over_ssh(run: Run) -> None:
    """Compare the mean times over 6 blocks, with an interval of 95 %: the proxy is at least 5 times as fast."""
    cells = [cell("direct", "none", 1), cell("proxied", "warm", 1)]
    claim = {
        "text": "a warm pull is faster",
        "ratio": {"of": {"stack": "direct"}, "to": {"stack": "proxied"}},
        "metric": "latency_mean_s",
        "at_least": TIMES_FASTER,
    }
    store = run("lab", cells=cells, control=[], claims=[claim], blocks=BLOCKS)
    ((_, found),) = benchkit.claims(store=store).iterrows()
    pulls = benchkit.load("trials", store=store).groupby("factor_stack")["latency_mean_s"].median()
    print(
        f"\na pull over SSH {pulls['direct']:.3f} s, through the proxy {pulls['proxied']:.3f} s: {found['ratio']:.1f} times"
    )
    print(
        f"from {found['low']:.1f} to {found['high']:.1f} (limit {TIMES_FASTER:g}): {found['state']} {found['reason']}"
    )
    assert found["low"] >= TIMES_FASTER


@pytest.mark.parametrize("files", [False, True], ids=["by the proxy", "by its files"])
def test_fifty_pulls_at_once(run: Run, *, files: bool) -> None:
    """Check that none of 50 concurrent warm pulls fails, served by goproxy or by nginx from its files."""
    cells = [cell("proxied", "warm", AT_ONCE, files=files)]
    factors = {"factors.developers": [AT_ONCE], "load.requests": AT_ONCE, "baseline": None}
    store = run("smoke", cells=cells, claims=[], **factors)
    (trial,) = benchkit.load("trials", store=store).to_dict("records")
    print(f"\n{trial['requests']} pulls at once, files {files}: median {trial['latency_p50_s']:.1f} s")
    assert trial["requests"] == AT_ONCE
    assert {trial[f"errors_{kind}"] for kind in ("connect", "read", "write", "timeout")} | {trial["non_2xx"]} == {0}
