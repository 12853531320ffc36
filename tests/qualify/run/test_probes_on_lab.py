"""Probes on the lab: real servers whose responses vary, differ or change under load, in both designs."""

from __future__ import annotations

import pandas as pd
import pytest

import benchkit
from benchkit.hosts.connections import connect_all
from benchkit.judge.responses import UNDECLARED
from benchkit.lab.lab import Lab
from benchkit.run.run import execute
from benchkit.store.store import Store
from tests.support.builders import experiment, load
from tests.support.paths import TESTS
from tests.support.run.opening import open_run

SERVER = TESTS / "support/run/answering_server.py"
KINDS = ("fixed", "newline", "page", "counter", "clock", "broken", "starting", "length")
BLOCKS = {"sliced": 3, "blocks": 2}
"""Blocks by design: an interval needs three, and a clock two, as it may show the same second twice within one."""
CHECKS = ("unequal-responses", "changed-response")
ON_A_BUSY_MACHINE = {
    "generator_cpu": 1,
    "foreign_cores": 100,
    "steal": 1,
    "littles_law": 1,
    "connections": 0,
    "server_cpu": 0,
    "unequal": 100,
    "neighbour_cpu": 1,
    "carry_over": 1,
    "slice_answers": 0.1,
    "cold": 1,
    "gap_intervals": 100,
}
"""Thresholds that exclude no trial because of other work."""


@pytest.fixture(scope="module", params=BLOCKS)
def stored(request: pytest.FixtureRequest, lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the store of a run of a server of each kind; the one of fixed responses is the baseline."""
    body_file = tmp_path_factory.mktemp("body") / "numbers.json"
    body_file.write_text("[1,2,3]")
    services = {
        kind: {
            "entry": "app",
            "services": {
                "app": {
                    "backend": "command",
                    "listen": 18080,
                    "run": ["python3", SERVER.name, "{port}", kind],
                    "files": [str(SERVER)],
                }
            },
        }
        for kind in KINDS
    }
    scenario = experiment(
        stacks=services,
        factors={"stack": list(KINDS)},
        load=load(
            tool="h2load",
            connections=4,
            duration_s=1.0,
            warmup_s=0.2,
            headers={"content-length": "7"},
            requests=[{"method": "POST", "body_file": str(body_file)}],
        ),
        differs=[{"what": ["header_bytes"], "why": "the length of the body has one digit or two"}],
        thresholds=ON_A_BUSY_MACHINE,
        design=request.param,
        slice_s=0.5,  # a load tool may be late by as much before it is ended
        blocks=BLOCKS[request.param],
    )
    store = Store(tmp_path_factory.mktemp("store"))
    with connect_all(lab.inventory()) as hosts, open_run(scenario, hosts, store) as run:
        outcome = execute(run)
    assert (outcome.status, outcome.failures) == ("done", {})
    return str(store.path)


def test_each_server_is_judged_by_what_it_sends(stored: str) -> None:
    trials = benchkit.load("trials", store=stored)
    stacks = trials[["trial_id", "factor_stack"]]
    found: pd.DataFrame = benchkit.load("verdicts", store=stored).merge(stacks, on="trial_id")
    found = found[found["check"].isin(CHECKS)]
    seen = {(row.factor_stack, row.check): row.seen for row in found.itertuples()}
    assert set(seen) == {("page", "unequal-responses"), ("broken", "changed-response")}
    assert (
        seen["page", "unequal-responses"]
        == "a body of text/html against application/json in most answers of stack=fixed"
    )
    assert seen["broken", "changed-response"] == "another body during the load and after the load"
    blocks = int(trials["block"].max())
    assert found.groupby("factor_stack")["trial_id"].nunique().to_dict() == {"page": blocks, "broken": blocks}
    unchecked = benchkit.load("unchecked", store=stored)
    assert "changed-response" not in set(unchecked["check"])


def test_ratios_of_one_kind_state_how_responses_differ(stored: str) -> None:
    compared = {ratio.cell_id: ratio for ratio in benchkit.compare("latest", store=stored).ratios}
    notes = {kind: [note for note in compared[f"stack={kind}"].notes if UNDECLARED in note] for kind in KINDS[1:]}
    assert notes["newline"] == [f"different answers: 10 bytes of body against 9 ({UNDECLARED})"]
    assert notes["length"] == notes["starting"] == []
    assert all(notes[kind] for kind in ("counter", "clock", "page"))
    usable = {kind: compared[f"stack={kind}"] for kind in KINDS[1:] if not compared[f"stack={kind}"].is_unusable}
    assert usable.keys() == {"newline", "counter", "clock", "starting", "length"}
    assert all((ratio.low is not None) == (ratio.blocks == BLOCKS["sliced"]) for ratio in usable.values())


def test_every_request_is_probed_at_four_times(stored: str) -> None:
    trials = benchkit.load("trials", store=stored).set_index("factor_stack")
    bodies = trials[["probe_body_sha256", "probe_again_sha256", "probe_during_sha256", "probe_after_sha256"]]
    assert bodies.notna().all(axis=None)
    assert {len(set(each)) for each in bodies.loc[["fixed"]].to_numpy()} == {1}
    assert {len(set(each)) for each in bodies.loc[["counter"]].to_numpy()} == {4}
