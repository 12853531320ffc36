from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from benchkit.comparison.claims import ClaimResult, judge_claims
from benchkit.comparison.compare import compare_all_metrics
from benchkit.comparison.runs.run_data import RunData, run_data_from_tables
from benchkit.models.base import Levels
from benchkit.stats.samples import Exclusion
from benchkit.store.parquet_files import empty_frame
from tests.support.comparison.fixtures import manifest_of, trials_of

GRID: list[Levels] = [{"stack": stack, "cores": cores} for stack in ("go", "nginx") for cores in (1, 8)]
NOISE = np.array([0.98, 1.02, 1.0, 0.99, 1.01, 1.0, 1.02, 0.98])
RATES = {"stack=go,cores=1": 100, "stack=nginx,cores=1": 94, "stack=go,cores=8": 400, "stack=nginx,cores=8": 232}


def judge(
    claim: dict[str, Any],
    *,
    excluded: tuple[Exclusion, ...] = (),
    blocks: int = 8,
    **manifest: Any,  # noqa: ANN401 - arguments of manifest_of
) -> ClaimResult:
    """Evaluate one claim on nginx relative to go: 0.94 with one core, 0.58 with eight."""
    rates = {cell: rate * NOISE[:blocks] ** (1 if "go" in cell else -1) for cell, rate in RATES.items() if blocks}
    claims = [{"text": "a sentence", "ratio": {"of": {"stack": "nginx"}, "to": {"stack": "go"}}, **claim}]
    scenario = {"claims": claims, **manifest.pop("scenario", {})}
    (result,) = judge_claims(RunData(manifest_of(GRID, scenario=scenario, **manifest), trials_of(rates), excluded))
    return result


ONE = {"ratio": {"of": {"stack": "nginx", "cores": 1}, "to": {"stack": "go"}}}
EIGHT = {"ratio": {"of": {"stack": "nginx", "cores": 8}, "to": {"stack": "go", "cores": 8}}}


@pytest.mark.parametrize(
    ("claim", "state"),
    [
        ({**EIGHT, "at_most": 0.7}, "holds"),
        ({**EIGHT, "at_least": 0.7}, "refuted"),
        ({**EIGHT, "at_least": 0.58}, "undecided"),
        ({**EIGHT, "between": [0.5, 0.65]}, "holds"),
        ({**EIGHT, "between": [0.57, 0.585]}, "undecided"),
        ({**EIGHT, "between": [0.65, 0.9]}, "refuted"),
        ({**EIGHT, "about": 0.58, "within": 0.1}, "holds"),
        ({**EIGHT, "about": 0.7, "within": 0.1}, "refuted"),
        ({**ONE, "about": 0.94, "within": 0.1, "published": 0.94}, "holds"),
    ],
)
def test_interval_decides_a_claim(claim: dict[str, Any], state: str) -> None:
    result = judge(claim)
    assert result.state == state
    (ratio,) = result.ratios
    assert f"[{ratio.low:.3g}, {ratio.high:.3g}]" in result.reason
    assert result.published == claim.get("published")


def test_claim_on_several_pairs_needs_all_of_them() -> None:
    result = judge({"at_most": 1})
    assert [(r.cell_id, r.baseline) for r in result.ratios] == [
        ("stack=nginx,cores=1", "stack=go,cores=1"),
        ("stack=nginx,cores=8", "stack=go,cores=8"),
    ]
    assert result.state == "holds"
    assert judge({"at_most": 0.8}).state == "refuted"
    assert "stack=nginx,cores=1 relative to stack=go,cores=1" in judge({"at_most": 0.8}).reason
    assert judge({"at_most": 0.94}).state == "undecided"


@pytest.mark.parametrize(
    ("needs", "facts", "reported"),
    [
        ({"sut": {"cpus": 6}}, {"cpus": [0, 1]}, "needs 6 CPUs on sut, which has 2"),
        (
            {"sut": {"link_bps": 1e9}},
            {"cpus": [0], "link_bps": 2e8, "interfaces": [{"name": "eth0", "speed_bps": 1e10}]},
            "needs a link of 1e+09 bit/s on sut, which has 2e+08",
        ),
        (
            {"sut": {"link_at_most_bps": 1e9}},
            {"cpus": [0], "interfaces": [{"name": "eth1", "speed_bps": None}]},
            "needs a link of at most 1e+09 bit/s on sut, whose link speed is unknown; set link_bps",
        ),
    ],
)
def test_unmet_need_makes_a_claim_not_testable(needs: dict[str, Any], facts: dict[str, Any], reported: str) -> None:
    result = judge({**EIGHT, "at_most": 0.7, "needs": needs}, facts=facts)
    assert (result.state, result.reason, result.ratios) == ("not testable here", reported, ())


def test_supported_cells_decide_a_claim_on_several() -> None:
    result = judge({"at_most": 1}, unsupported={"stack=go,cores=8": "on these hosts the same as stack=go,cores=1"})
    assert [ratio.cell_id for ratio in result.ratios] == ["stack=nginx,cores=1"]
    alone = judge({**ONE, "at_most": 1})
    assert result.state == alone.state == "holds"
    left_out = "stack=go,cores=8: on these hosts the same as stack=go,cores=1"
    assert result.reason == f"{alone.reason} (without {left_out})"


def test_too_few_valid_trials_leave_it_undecided_with_the_reason() -> None:
    out = tuple(Exclusion(f"r1.stack=go,cores=8.b{block}", "the link was full") for block in range(1, 7))
    result = judge({**EIGHT, "at_most": 1}, excluded=out)
    assert result.state == "undecided"
    assert (
        result.reason == "2 blocks have usable trials of both cells; an interval needs 3 (the link was full (6 trials))"
    )
    assert judge({**EIGHT, "at_most": 1}, blocks=2).state == "undecided"


@pytest.mark.parametrize(
    ("metric", "limits", "state"),
    [
        ("profile_share/waiting", {"at_least": 2}, "holds"),
        ("profile_share/waiting", {"at_most": 2}, "refuted"),
        ("profile_share/scheduler", {"about": 1.0, "within": 0.2}, "holds"),
        ("profile_cumulative/mcall", {"at_least": 1.5}, "holds"),
        ("profile_cumulative/epollwait", {"at_least": 1.5}, "undecided"),
    ],
)
def test_a_claim_about_a_share_uses_the_profiled_trials(metric: str, limits: dict[str, float], state: str) -> None:
    few, many = "connections=1", "connections=9"
    sides = {"of": {"connections": 9}, "to": {"connections": 1}}
    claim = {"text": "a sentence", "ratio": sides, "metric": metric, **limits}
    manifest = manifest_of([{"connections": 1}, {"connections": 9}], scenario={"claims": [claim]})
    measured = trials_of({few: [5, 5, 5], many: [5, 5, 5]})
    profiled = trials_of({few: [1, 1, 1], many: [1, 1, 1]}, run_id="p", kind="profile")
    shares, functions = [], []
    for cell, netpoll, mcall in ((few, 0.1, 0.2), (many, 0.5, 0.4)):
        for block, noise in ((1, 0.01), (2, 0.0), (3, -0.01)):
            trial = {"trial_id": f"p.{cell}.b{block}", "service": "app"}
            shares += [
                {**trial, "category": "scheduler", "share": 0.1 + noise / 10},
                {**trial, "category": "netpoll", "share": netpoll + noise},
            ]
            functions.append({**trial, "function": "runtime.mcall", "cum_share": mcall + noise})
    verdicts = empty_frame("verdicts")
    tables = {"profile_share": pd.DataFrame(shares), "profile": pd.DataFrame(functions), "verdicts": verdicts}
    trials = pd.concat([measured, profiled], ignore_index=True)
    data = run_data_from_tables(manifest, trials, verdicts, table=tables.__getitem__)
    (result,) = judge_claims(data)
    assert (result.state, result.metric) == (state, metric)
    assert all(metric not in each.metrics for each in compare_all_metrics(data))
    (unprofiled,) = judge_claims(RunData(manifest, measured))
    assert (unprofiled.state, unprofiled.reason) == ("not testable here", "no trial was profiled")


def test_the_number_of_claims_is_allowed_for() -> None:
    ratio = {"of": {"stack": "nginx", "cores": 8}, "to": {"stack": "go", "cores": 8}}
    rates = {cell: rate * NOISE ** (1 if "go" in cell else -1) for cell, rate in RATES.items()}

    def judged(*limits: float) -> tuple[ClaimResult, ...]:
        claims = [{"text": f"at most {limit}", "ratio": ratio, "at_most": limit} for limit in limits]
        return judge_claims(RunData(manifest_of(GRID, scenario={"claims": claims}), trials_of(rates)))

    (alone,) = judged(1.0)
    (measured,) = alone.ratios
    assert measured.high is not None
    edge = (measured.high + measured.interval(0.025)[1]) / 2  # within one interval, outside of one for two claims
    assert judged(edge)[0].state == "holds"
    among = judged(edge, measured.ratio or 0.0)
    assert [each.state for each in among] == ["undecided", "undecided"]
    assert among[0].p is not None
    assert among[0].p_holm == pytest.approx(2 * among[0].p)
    assert "by itself, not as one of 2 claims" in among[0].reason
    assert [each.state for each in judged(edge, 1.0)] == ["holds", "holds"]  # the surer one does not count any more


def test_a_ratio_of_ratios_compares_two_leads() -> None:
    lead = {"of": {"stack": "nginx", "cores": 1}, "to": {"stack": "go", "cores": 1}}
    result = judge({**EIGHT, "relative_to": lead, "about": 0.617, "within": 0.1})  # 0.58 / 0.94
    assert result.state == "holds"
    (ratio,) = result.ratios
    assert ratio.ratio == pytest.approx((232 / 400) / (94 / 100))
    assert (ratio.value, ratio.baseline_value) == pytest.approx((0.58, 0.94), rel=1e-3)
    assert ratio.relative_to == "stack=nginx,cores=1 to stack=go,cores=1"
    many = judge({**EIGHT, "relative_to": {"of": {"stack": "nginx"}, "to": {"stack": "go"}}, "at_most": 1})
    assert (many.state, many.reason) == (
        "not testable here",
        "2 pairs of cells to divide by, instead of one, in this run",
    )


def test_a_claim_about_goroutines_uses_the_samples_of_trials() -> None:
    ratio = {"of": {"stack": "nginx"}, "to": {"stack": "go"}}
    claim = {"text": "equal", "ratio": ratio, "metric": "goroutines", "about": 1, "within": 0.05}
    manifest = manifest_of([{"stack": "go"}, {"stack": "nginx"}], scenario={"claims": [claim]})
    trials = trials_of({"stack=go": [1, 1, 1], "stack=nginx": [1, 1, 1]}, duration_s=2.0)
    samples = [
        {"trial_id": f"r1.stack={stack}.b{block}", "service": "app", "metric": "goroutines", "t_s": t, "value": value}
        for stack, count in (("go", 215.0), ("nginx", 216.0))
        for block in (1, 2, 3)
        for t, value in ((-1.0, 3.0), (1.0, count), (9.0, 3.0))
    ]
    data = RunData(manifest, trials, table={"telemetry": pd.DataFrame(samples)}.__getitem__)
    (result,) = judge_claims(data)
    (measured,) = result.ratios
    assert measured.ratio == pytest.approx(216 / 215)
    assert result.state == "holds"
    (unknown,) = judge_claims(RunData(manifest, trials))
    assert (unknown.state, unknown.reason) == ("not testable here", "no server reported its goroutines")
    assert all("goroutines" not in each.metrics for each in compare_all_metrics(data))
