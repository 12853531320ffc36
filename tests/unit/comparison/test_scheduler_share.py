from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import pytest

from benchkit.comparison.cpu_profiles import ProfileData, service_profiles
from benchkit.comparison.run_data import RunData
from benchkit.models.profile import CATEGORIES
from benchkit.models.run import Manifest
from benchkit.stats.samples import Exclusion
from benchkit.store.parquet_files import empty_frame

MakeTrials = Callable[..., pd.DataFrame]
MakeManifest = Callable[..., Manifest]


@pytest.fixture
def trials(make_trials: MakeTrials) -> pd.DataFrame:
    """Return two cells in three measured blocks, and a block of slower profile trials."""
    measured = make_trials(
        {"server=a": [10, 30, 20], "server=b": [5, 5, 6]}, duration_s=2.0, server_cpu_s_per_request=1e-5
    )
    parts = [measured]
    for kind in ("profile", "control"):
        rows = make_trials({"server=a": [1, 1], "server=b": [1, 1]}, kind=kind, duration_s=2.0)
        parts.append(rows.assign(block=rows["block"] + 3, trial_id=rows["trial_id"] + f".{kind}"))
    return pd.concat(parts, ignore_index=True)


@pytest.fixture
def manifest(make_manifest: MakeManifest) -> Manifest:
    return make_manifest([{"server": "a"}, {"server": "b"}])


def shares_of(trial_id: str, service: str, **shares: float) -> list[dict[str, object]]:
    named = {name.replace("_", "/"): share for name, share in shares.items()}
    named["other"] = 1 - sum(named.values())
    rows = {name: named.get(name, 0.0) for name in CATEGORIES}
    return [{"trial_id": trial_id, "service": service, "category": name, "share": each} for name, each in rows.items()]


def functions_of(trial_id: str, service: str, **shares: float) -> list[dict[str, object]]:
    return [
        {"trial_id": trial_id, "service": service, "function": f"runtime.{name}", "cum_share": share}
        for name, share in shares.items()
    ]


def test_shares_are_means_over_profiles_and_the_rest_is_of_measured_trials(
    trials: pd.DataFrame, manifest: Manifest
) -> None:
    one, other = "r1.server=a.b1.profile", "r1.server=a.b2.profile"
    shares = pd.DataFrame(
        [
            *shares_of(one, "app", scheduler=0.1, netpoll=0.2, read_write=0.5),
            *shares_of(other, "app", scheduler=0.2, netpoll=0.2, read_write=0.6),
        ]
    )
    functions = pd.DataFrame(
        [
            *functions_of(one, "app", mcall=0.3, schedule=0.3, findrunnable=0.25, netpoll=0.2, epollwait=0.19),
            *functions_of(other, "app", mcall=0.4, schedule=0.4, findRunnable=0.35),
        ]
    )
    telemetry = pd.DataFrame(
        [
            {"trial_id": trial_id, "service": "app", "metric": metric, "t_s": t, "value": value}
            for trial_id, count in (
                ("r1.server=a.b1", 100.0),
                ("r1.server=a.b2", 110.0),
                ("r1.server=a.b3", 130.0),
                (one, 9.0),
            )
            for metric in ("goroutines", "threads")
            for t, value in ((-1.0, 1.0), (0.0, count - 5), (1.0, count), (2.0, count + 5), (3.0, 1.0))
        ]
    )
    (found,) = service_profiles(ProfileData(RunData(manifest, trials), shares, functions, telemetry))
    assert (found.cell_id, found.service, found.profiles) == ("server=a", "app", 2)
    assert found.scheduling == pytest.approx(0.35)
    assert found.range == pytest.approx((0.3, 0.4))
    assert list(found.categories) == list(CATEGORIES)
    assert sum(found.categories.values()) == pytest.approx(1)
    assert found.categories["read/write"] == pytest.approx(0.55)
    assert found.cumulative == pytest.approx(
        {"mcall": 0.35, "schedule": 0.35, "findrunnable": 0.3, "netpoll": 0.1, "epollwait": 0.095}
    )
    assert (found.goroutines, found.rps, found.server_cpu_s_per_request) == (110, 20, 1e-5)


def test_services_are_separate_and_unknown_figures_absent(trials: pd.DataFrame, manifest: Manifest) -> None:
    shares = pd.DataFrame(
        [
            *shares_of("r1.server=b.b1.profile", "front", read_write=1.0),
            *shares_of("r1.server=b.b1.profile", "app", scheduler=0.5),
            *shares_of("r1.server=a.b1.profile", "app", scheduler=0.25),
        ]
    )
    found = service_profiles(
        ProfileData(RunData(manifest, trials), shares, empty_frame("profile"), empty_frame("telemetry"))
    )
    assert {(each.cell_id, each.service): each.scheduling for each in found} == {
        ("server=a", "app"): 0.25,
        ("server=b", "front"): 0.0,
        ("server=b", "app"): 0.5,
    }
    assert [each.cell_id for each in found] == ["server=a", "server=b", "server=b"]
    assert {each.goroutines for each in found} == {None}
    assert set(found[0].cumulative.values()) == {0.0}


def test_a_run_without_profiles_has_none(trials: pd.DataFrame, manifest: Manifest) -> None:
    nothing = [empty_frame(name) for name in ("profile_share", "profile", "telemetry")]
    assert service_profiles(ProfileData(RunData(manifest, trials), *nothing)) == ()


def test_excluded_trials_are_used_only_without_others(trials: pd.DataFrame, manifest: Manifest) -> None:
    shares = pd.DataFrame(shares_of("r1.server=a.b1.profile", "app", scheduler=0.5))
    nothing = [empty_frame(name) for name in ("profile", "telemetry")]
    out = [Exclusion(f"r1.server=a.b{block}", "noisy", frozenset({"rps"})) for block in (1, 2, 3)]
    for excluded, rps in ((out[:1], 25), (out[:2], 20), (out, 20)):
        (found,) = service_profiles(ProfileData(RunData(manifest, trials, tuple(excluded)), shares, *nothing))
        assert (found.rps, found.server_cpu_s_per_request) == (rps, 1e-5)
        assert found.invalid_figures == (("rps",) if excluded == out else ())


def test_excluded_profiles_are_used_only_without_others(trials: pd.DataFrame, manifest: Manifest) -> None:
    one, other = "r1.server=a.b1.profile", "r1.server=a.b2.profile"
    shares = pd.DataFrame([*shares_of(one, "app", scheduler=0.1), *shares_of(other, "app", scheduler=0.5)])
    functions = pd.DataFrame([*functions_of(one, "app", mcall=0.2), *functions_of(other, "app", mcall=0.6)])
    telemetry = empty_frame("telemetry")
    every, few = frozenset({"rps", "latency_p99_s"}), frozenset({"latency_p99_s"})
    for excluded, scheduling, mcall, omitted in (
        ([], 0.3, 0.4, 0),
        ([Exclusion(other, "few", few)], 0.3, 0.4, 0),
        ([Exclusion(other, "noisy", every)], 0.1, 0.2, 1),
        ([Exclusion(one, "noisy", every), Exclusion(other, "noisy", every)], 0.3, 0.4, 0),
    ):
        (found,) = service_profiles(
            ProfileData(RunData(manifest, trials), shares, functions, telemetry, exclusions=excluded)
        )
        assert found.scheduling == pytest.approx(scheduling)
        assert found.cumulative["mcall"] == pytest.approx(mcall)
        assert (found.profiles, found.excluded_profiles) == (2 - omitted, omitted)
        assert found.invalid_figures == (("shares",) if len(excluded) == 2 else ())
