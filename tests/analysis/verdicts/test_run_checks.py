"""What only the trials of a run beside each other show."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pytest

from benchkit import units
from benchkit.analysis.resolution import Noise, half_width
from benchkit.analysis.verdicts.check import ALL, RATES, Finding, SkippedCheck
from benchkit.analysis.verdicts.evidence import RunEvidence
from benchkit.analysis.verdicts.exclusions import exclusions
from benchkit.analysis.verdicts.judge import combine_results, judge_run
from benchkit.analysis.verdicts.registry import CHECKS
from benchkit.models.run import Manifest
from benchkit.models.thresholds import Thresholds
from benchkit.results.schema import arrow_schema, arrow_table

MakeTrials = Callable[..., pd.DataFrame]
MakeManifest = Callable[..., Manifest]

SERVERS = [{"stack": name} for name in ("a", "b", "c")]
ALIKE = {"probe_status": 200, "probe_header_bytes": 141, "probe_body_bytes": 12, "probe_body_sha256": "ab"}


def hosts(*rows: tuple[str, str, str, str]) -> pd.DataFrame:
    """Rows of `hosts`: host, at, fact, value."""
    named = [{"host": host, "role": host, "at": at, "fact": fact, "value": value} for host, at, fact, value in rows]
    frame: pd.DataFrame = pa.Table.from_pylist(named, schema=arrow_schema("hosts")).to_pandas()
    return frame


def found(code: str, manifest: Manifest, trials: pd.DataFrame, facts: pd.DataFrame | None = None) -> dict[str, Finding]:
    """The reasons that a check over a run gives, by trial."""
    evidence = RunEvidence(manifest, trials, hosts() if facts is None else facts)
    by_trial = CHECKS[code].of_run(evidence, Thresholds())
    assert not any(isinstance(each, SkippedCheck) for each in by_trial.values())
    return {trial: each[0] for trial, each in by_trial.items() if not isinstance(each, SkippedCheck) and each}


def unmade(code: str, manifest: Manifest, trials: pd.DataFrame, facts: pd.DataFrame | None = None) -> set[str]:
    """The trials of which a check could not be made."""
    evidence = RunEvidence(manifest, trials, hosts() if facts is None else facts)
    by_trial = CHECKS[code].of_run(evidence, Thresholds())
    return {trial for trial, each in by_trial.items() if isinstance(each, SkippedCheck)}


def of(cell: str, blocks: int = 3) -> set[str]:
    return {f"r1.{cell}.b{block}" for block in range(1, blocks + 1)}


class TestPlateau:
    def trials(
        self,
        make_trials: MakeTrials,
        rates: Sequence[float],
        cores: Sequence[float],
        cells: Sequence[str] | None = None,
    ) -> pd.DataFrame:
        names = cells or [f"stack={each['stack']}" for each in SERVERS]
        made = make_trials({name: [rate] * 3 for name, rate in zip(names, rates, strict=True)}, connections=64)
        cpu = {name: cores_ / rate for name, rate, cores_ in zip(names, rates, cores, strict=True)}
        return made.assign(server_cpu_s_per_request=made["cell_id"].map(cpu))

    @pytest.mark.parametrize(
        ("rates", "cores", "raised"),
        [
            ((1000, 1010, 1019), (0.3, 0.5, 0.9), True),
            ((1000, 1010, 1021), (0.3, 0.5, 0.9), False),
            ((1000, 1010, 1019), (0.85, 0.87, 0.93), False),
        ],
    )
    def test_three_servers_at_one_rate_on_different_cpu(
        self,
        make_trials: MakeTrials,
        make_manifest: MakeManifest,
        rates: Sequence[float],
        cores: Sequence[float],
        *,
        raised: bool,
    ) -> None:
        reasons = found("plateau", make_manifest(SERVERS), self.trials(make_trials, rates, cores))
        assert set(reasons) == (of("stack=a") | of("stack=b") | of("stack=c") if raised else set())
        assert all((each.severity, each.metrics) == ("suspect", RATES) for each in reasons.values())

    def test_the_same_server_under_three_loads_is_one_server(
        self, make_trials: MakeTrials, make_manifest: MakeManifest
    ) -> None:
        cells = [{"connections": count} for count in (1, 2, 3)]
        names = [f"connections={count}" for count in (1, 2, 3)]
        trials = self.trials(make_trials, (1000, 1001, 1002), (0.3, 0.6, 0.9), names)
        scenario = {"stacks": {"go": {"services": {"app": {"gomaxprocs": 1}}}}, "load": {"connections": "$connections"}}
        assert found("plateau", make_manifest(cells, scenario=scenario), trials) == {}
        of_servers = {"stacks": {"go": {"services": {"app": {"gomaxprocs": "$connections"}}}}}
        assert found("plateau", make_manifest(cells, scenario=of_servers), trials)

    def test_a_set_rate_is_no_plateau(self, make_trials: MakeTrials, make_manifest: MakeManifest) -> None:
        trials = self.trials(make_trials, (1000, 1000, 1000), (0.3, 0.6, 0.9)).assign(rate_requested=1000.0)
        assert found("plateau", make_manifest(SERVERS), trials) == {}

    def test_unknown_cpu_is_said(self, make_trials: MakeTrials, make_manifest: MakeManifest) -> None:
        trials = self.trials(make_trials, (1000, 1000, 1000), (0.3, 0.6, 0.9))
        trials.loc[trials["cell_id"] == "stack=b", "server_cpu_s_per_request"] = np.nan
        assert unmade("plateau", make_manifest(SERVERS), trials) == of("stack=b")


class TestUnstable:
    @pytest.mark.parametrize(
        ("blocks", "spread", "raised"),
        [
            (6, 0.099, False),
            (6, 0.101, True),
            (3, 0.042, False),
            (3, 0.043, True),
            (30, 0.28, False),
            (30, 0.282, True),
        ],
    )
    def test_the_spread_of_a_cell_against_what_so_many_blocks_resolve(
        self, make_trials: MakeTrials, make_manifest: MakeManifest, blocks: int, spread: float, *, raised: bool
    ) -> None:
        evenly = np.linspace(-1, 1, blocks)
        rates = {"stack=a": 1000 * np.exp(spread * evenly / evenly.std(ddof=1)), "stack=b": [900, 901, 902] * 2}
        reasons = found("unstable", make_manifest(SERVERS[:2]), make_trials(rates))
        assert set(reasons) == (of("stack=a", blocks) if raised else set())
        assert all((each.severity, each.metrics) == ("suspect", RATES) for each in reasons.values())

    @pytest.mark.parametrize("blocks", [3, 6, 30])
    def test_the_reason_says_how_wide_the_interval_of_a_ratio_is(
        self, make_trials: MakeTrials, make_manifest: MakeManifest, blocks: int
    ) -> None:
        evenly = np.linspace(-1, 1, blocks)
        rates = 1000 * np.exp(0.5 * evenly / evenly.std(ddof=1))
        reason = found("unstable", make_manifest(SERVERS[:1]), make_trials({"stack=a": rates}))["r1.stack=a.b1"]
        width = half_width(Noise(0.5 * np.sqrt(2)), blocks)
        assert width is not None
        assert f"is known to {units.share(width - 1)}" in reason.text

    def reason(
        self,
        make_trials: MakeTrials,
        make_manifest: MakeManifest,
        rates: npt.ArrayLike,
        loops_s: Sequence[float | None] | npt.NDArray[np.float64],
    ) -> Finding:
        trials = make_trials({"stack=a": rates}).assign(server_loop_s=np.array(loops_s, dtype=float))
        return found("unstable", make_manifest(SERVERS[:1], blocks=len(loops_s)), trials)["r1.stack=a.b1"]

    def test_a_spread_that_goes_with_how_fast_cores_were_is_said_to(
        self, make_trials: MakeTrials, make_manifest: MakeManifest
    ) -> None:
        """Rates and loops of a run on a lab whose cores were slowed now and then."""
        reason = self.reason(
            make_trials,
            make_manifest,
            (62_626, 59_753, 58_539, 48_246, 47_796, 48_923, 43_426, 52_931),
            (9.37e-6, 9.95e-6, 9.41e-6, 11.05e-6, 11.74e-6, 10.44e-6, 14.35e-6, 11.33e-6),
        )
        assert "77.6 % of the variance goes with how fast the server's cores were" in reason.means
        assert "a small loop took 9.37 µs to 14.3 µs on them" in reason.means
        assert reason.advice.startswith("It seems to be the machine that varies")

    @pytest.mark.parametrize(
        ("squared", "said"),
        [
            (0.66, True),
            (0.64, False),
        ],
    )
    def test_a_share_of_it_that_chance_may_come_to_is_not(
        self, make_trials: MakeTrials, make_manifest: MakeManifest, squared: float, *, said: bool
    ) -> None:
        along, across = np.array([-2, -1, 0, 1, 2]) / np.sqrt(10), np.array([2, -1, -2, -1, 2]) / np.sqrt(14)
        logs = np.sqrt(squared) * along + np.sqrt(1 - squared) * across
        reason = self.reason(make_trials, make_manifest, 100 * np.exp(logs), 1e-5 * np.exp(-along))
        assert (f"{units.share(squared)} of the variance" in reason.means) == said

    @pytest.mark.parametrize(
        "loops_s",
        [
            (5e-5, 4e-5, 3e-5, 2e-5, None),  # of one trial nobody knows
            (1e-5, 1e-5, 1e-5, 1e-5, 1e-5),  # at their speed all the time
            (1e-5, 2e-5, 3e-5, 4e-5, 5e-5),  # the slower they were the faster the server
        ],
    )
    def test_a_spread_that_does_not_go_with_it_has_a_cause_that_is_not_known(
        self, make_trials: MakeTrials, make_manifest: MakeManifest, loops_s: Sequence[float | None]
    ) -> None:
        reason = self.reason(make_trials, make_manifest, (100, 130, 160, 190, 220), loops_s)
        assert "how fast" not in reason.means
        assert reason.advice.startswith("Look for what varies")

    def test_four_trials_explain_nothing(self, make_trials: MakeTrials, make_manifest: MakeManifest) -> None:
        reason = self.reason(make_trials, make_manifest, (100, 130, 160, 190), (5e-5, 4e-5, 3e-5, 2e-5))
        assert reason.advice.startswith("Look for what varies")

    def test_a_set_rate_does_not_go_by_how_fast_cores_are(
        self, make_trials: MakeTrials, make_manifest: MakeManifest
    ) -> None:
        rates, loops_s = (100, 130, 160, 190, 220), (5e-5, 4e-5, 3e-5, 2e-5, 1e-5)
        trials = make_trials({"stack=a": rates}, rate_requested=200.0).assign(server_loop_s=loops_s)
        reason = found("unstable", make_manifest(SERVERS[:1], blocks=5), trials)["r1.stack=a.b1"]
        assert reason.advice.startswith("Look for what varies")

    def test_two_trials_have_none(self, make_trials: MakeTrials, make_manifest: MakeManifest) -> None:
        assert unmade("unstable", make_manifest(SERVERS[:1]), make_trials({"stack=a": [1, 9]})) == of("stack=a", 2)


class TestDriftedHost:
    def test_the_blocks_after_a_change(self, make_trials: MakeTrials, make_manifest: MakeManifest) -> None:
        fact = "sysctls.net.core.somaxconn"
        looks = [("sut", f"block {block}", fact, "4096" if block < 3 else "128") for block in (1, 2, 3)]
        moved = ("sut", "block 2", "clock_offset_s", "0.3")
        trials = make_trials({"stack=a": [1, 2, 3], "stack=b": [1, 2, 3]})
        reasons = found("drifted-host", make_manifest(SERVERS[:2]), trials, hosts(*looks, moved))
        assert set(reasons) == {"r1.stack=a.b3", "r1.stack=b.b3"}
        assert all((each.severity, each.metrics) == ("suspect", ALL) for each in reasons.values())
        assert "was 4096, is 128" in reasons["r1.stack=a.b3"].seen

    def test_a_change_during_the_last_block(self, make_trials: MakeTrials, make_manifest: MakeManifest) -> None:
        looks = [("sut", at, "governor", "performance") for at in ("block 1", "block 2", "block 3")]
        trials = make_trials({"stack=a": [1, 2, 3]})
        for at_end, marked in (("performance", set()), ("powersave", {"r1.stack=a.b3"})):
            end = [("sut", "end", "governor", at_end), ("sut", "end", "clock_offset_s", "0.3")]
            reasons = found("drifted-host", make_manifest(SERVERS[:1]), trials, hosts(*looks, *end))
            assert set(reasons) == marked

    def test_a_fact_that_comes_or_goes(self, make_trials: MakeTrials, make_manifest: MakeManifest) -> None:
        always = [("sut", f"block {block}", "kernel", "6.1") for block in (1, 2, 3)]
        gone = ("sut", "block 1", "sysctls.net.core.somaxconn", "4096")
        come = ("sut", "block 3", "governor", "powersave")
        trials = make_trials({"stack=a": [1, 2, 3]})
        reasons = found("drifted-host", make_manifest(SERVERS[:1]), trials, hosts(*always, gone, come))
        assert set(reasons) == {"r1.stack=a.b2", "r1.stack=a.b3"}
        assert "somaxconn of host sut was 4096, is absent" in reasons["r1.stack=a.b2"].seen
        assert "governor of host sut was absent, is powersave" in reasons["r1.stack=a.b3"].seen

    def test_a_program_that_was_replaced_is_named(self, make_trials: MakeTrials, make_manifest: MakeManifest) -> None:
        files = ("1240 bytes of 2026-03-01 10:00:00.0", "1260 bytes of 2026-03-02 10:00:00.0")
        looks = [("sut", f"block {block}", "executables.nginx", files[block > 1]) for block in (1, 2)]
        trials = make_trials({"stack=a": [1, 2]})
        reasons = found("drifted-host", make_manifest(SERVERS[:1]), trials, hosts(*looks))
        assert set(reasons) == {"r1.stack=a.b2"}
        assert f"program nginx of host sut was {files[0]}, is {files[1]}" in reasons["r1.stack=a.b2"].seen

    def test_a_host_that_was_given_up_has_not_changed(
        self, make_trials: MakeTrials, make_manifest: MakeManifest
    ) -> None:
        looks = [("sut", f"block {block}", "kernel", "6.1") for block in (1, 2)]
        lost = ("load", "block 1", "kernel", "6.1")
        trials = make_trials({"stack=a": [1, 2]})
        assert found("drifted-host", make_manifest(SERVERS[:1]), trials, hosts(*looks, lost)) == {}

    def test_nobody_looked(self, make_trials: MakeTrials, make_manifest: MakeManifest) -> None:
        start = hosts(("sut", "start", "kernel", "6.1"))
        trials = make_trials({"stack=a": [1, 2, 3]})
        assert unmade("drifted-host", make_manifest(SERVERS[:1]), trials, start) == of("stack=a")


class TestUnequalResponses:
    def test_a_cell_that_answers_otherwise_than_its_baseline(
        self, make_trials: MakeTrials, make_manifest: MakeManifest
    ) -> None:
        trials = make_trials({"stack=a": [1, 2, 3], "stack=b": [1, 2, 3]}, **ALIKE)
        assert found("unequal-responses", make_manifest(SERVERS[:2]), trials) == {}
        trials.loc[trials["cell_id"] == "stack=b", "probe_header_bytes"] = 160
        reasons = found("unequal-responses", make_manifest(SERVERS[:2]), trials)
        assert set(reasons) == of("stack=b")
        assert all((each.severity, each.metrics) == ("invalid", ALL) for each in reasons.values())
        assert "160 bytes of headers against 141" in reasons["r1.stack=b.b1"].seen

    def test_one_trial_that_answered_otherwise_than_its_cell(
        self, make_trials: MakeTrials, make_manifest: MakeManifest
    ) -> None:
        trials = make_trials({"stack=a": [1, 2, 3], "stack=b": [1, 2, 3]}, **ALIKE)
        trials.loc[trials["trial_id"] == "r1.stack=a.b2", "probe_body_sha256"] = "cd"
        assert set(found("unequal-responses", make_manifest(SERVERS[:2]), trials)) == {"r1.stack=a.b2"}

    def test_a_declared_difference_is_none(self, make_trials: MakeTrials, make_manifest: MakeManifest) -> None:
        trials = make_trials({"stack=a": [1, 2, 3], "stack=b": [1, 2, 3]}, **ALIKE)
        trials.loc[trials["cell_id"] == "stack=b", "probe_body_bytes"] = 1600
        scenario = {"differs": [{"what": ["body_bytes"], "why": "as it was published", "cells": {"stack": "b"}}]}
        assert found("unequal-responses", make_manifest(SERVERS[:2], scenario=scenario), trials) == {}

    def test_unprobed_trials_are_said(self, make_trials: MakeTrials, make_manifest: MakeManifest) -> None:
        trials = make_trials({"stack=a": [1, 2, 3]})
        assert unmade("unequal-responses", make_manifest(SERVERS[:1]), trials) == of("stack=a")


def test_a_run_is_judged_by_the_thresholds_it_was_run_under(
    make_trials: MakeTrials, make_manifest: MakeManifest
) -> None:
    trials = make_trials({"stack=a": 1000 * np.exp([-0.15, 0, 0.15])}, **ALIKE)
    run = hosts(("sut", "block 1", "kernel", "6.1"))
    strict, lax = (make_manifest(SERVERS[:1], thresholds={"spread": spread, "gone": 1.0}) for spread in (0.1, 0.5))
    assert {each.verdict for each in judge_run(RunEvidence(strict, trials, run)).values()} == {"suspect"}
    assert {each.verdict for each in judge_run(RunEvidence(lax, trials, run)).values()} == {"valid"}


class TestExclusions:
    def verdicts(self, *reasons: tuple[str, str, Finding]) -> pd.DataFrame:
        rows = [
            row
            for trial, check, reason in reasons
            for row in combine_results({check: [reason]}).verdict_rows(trial, "trial")
        ]
        frame: pd.DataFrame = arrow_table("verdicts", rows).to_pandas()
        return frame

    def reason(self, severity: str, *metrics: str) -> Finding:
        fields = {"seen": "it", "threshold": "so much", "means": "Thus.", "advice": "Do."}
        return Finding.model_validate({"severity": severity, "metrics": metrics, **fields})

    def test_invalid_trials_are_out_for_what_their_reasons_void(
        self, make_trials: MakeTrials, make_manifest: MakeManifest
    ) -> None:
        made = self.verdicts(
            ("r1.stack=a.b1", "link-saturated", self.reason("invalid", "rps")),
            ("r1.stack=a.b1", "generator-saturated", self.reason("invalid", "rps")),
            ("r1.stack=a.b2", "shared-cpus", self.reason("suspect", "rps", "server_cpu_s_per_request")),
        )
        out = exclusions(make_trials({"stack=a": [1, 2, 3]}), made, make_manifest(SERVERS[:1]))
        assert [(each.trial_id, each.covers("rps"), each.reason) for each in out] == [
            ("r1.stack=a.b1", True, "invalid: link-saturated, generator-saturated")
        ]
        assert not any(each.covers("server_cpu_s_per_request") for each in out)

    def test_percentiles_of_too_few_requests_are_out_wherever_they_are_used(
        self, make_trials: MakeTrials, make_manifest: MakeManifest
    ) -> None:
        trials = make_trials({"stack=a": [1.0, 1.0, 1.0]}, metric="latency_p999_s").assign(
            requests=[9_999, 10_000, 12_000]
        )
        out = exclusions(trials, self.verdicts(), make_manifest(SERVERS[:1]))
        assert [(each.trial_id, each.metrics) for each in out] == [("r1.stack=a.b1", frozenset({"latency_p999_s"}))]


class TestCold:
    """First thirds over last ones, a trial each."""

    def cold(self, make_trials: MakeTrials, make_manifest: MakeManifest, *ratios: float | None) -> dict[str, Finding]:
        trials = make_trials({"stack=a": [100.0] * len(ratios)}).assign(
            rate_first_over_last=np.array(ratios, dtype=float)
        )
        return found("cold", make_manifest(SERVERS[:1], blocks=len(ratios)), trials)

    def test_a_server_that_is_slow_at_first_in_every_trial(
        self, make_trials: MakeTrials, make_manifest: MakeManifest
    ) -> None:
        raised = self.cold(make_trials, make_manifest, 0.8, 0.85, 0.92, 0.7)
        assert set(raised) == of("stack=a", 4)
        assert {(each.severity, each.metrics) for each in raised.values()} == {("invalid", ALL)}
        assert "over 4 trials of the cell the server answered 18.7 % fewer requests" in raised["r1.stack=a.b1"].seen

    def test_a_server_that_is_so_slow_at_first_that_no_two_trials_agree_by_how_much(
        self, make_trials: MakeTrials, make_manifest: MakeManifest
    ) -> None:
        """A one-sided t test of their logarithms has p = 0.052."""
        assert set(self.cold(make_trials, make_manifest, 0.1, 0.1, 0.6)) == of("stack=a", 3)
        assert set(self.cold(make_trials, make_manifest, 0.1, 0.1, 0.8)) == of("stack=a", 3)

    @pytest.mark.parametrize(
        "ratios",
        [
            (0.95, 0.92, 0.93, 0.94),  # within the threshold
            (0.6, 1.3, 0.7, 1.4),  # a host whose speed changes by itself
            (0.55, 0.95, 1.0),  # as much on average, but by one trial alone
            (0.1, 0.1, 0.82),  # not clearly in each
            (1.3, 1.4, 1.5),
            (None, None),
        ],
    )
    def test_others_are_not_cold(
        self, make_trials: MakeTrials, make_manifest: MakeManifest, ratios: tuple[float | None, ...]
    ) -> None:
        assert self.cold(make_trials, make_manifest, *ratios) == {}

    def test_one_trial_speaks_for_itself(self, make_trials: MakeTrials, make_manifest: MakeManifest) -> None:
        assert set(self.cold(make_trials, make_manifest, 0.89)) == of("stack=a", 1)
        assert self.cold(make_trials, make_manifest, 0.91) == {}
        assert "in the only trial of the cell" in self.cold(make_trials, make_manifest, 0.5)["r1.stack=a.b1"].seen

    def test_trials_that_do_not_tell_are_no_part_of_it(
        self, make_trials: MakeTrials, make_manifest: MakeManifest
    ) -> None:
        assert set(self.cold(make_trials, make_manifest, 0.5, None, 0.5, 0.6)) == of("stack=a", 4) - {"r1.stack=a.b2"}
