"""The loads of cells, and their secret headers."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchkit.errors import InputError
from benchkit.scenario.cells import missing_secrets, validate_generators
from benchkit.scenario.experiment import Experiment
from tests.support.builders import load, read_scenario


def test_a_load_that_more_load_hosts_cannot_share_is_refused(tmp_path: Path) -> None:
    experiment = read_scenario(tmp_path, load=load(connections=4))
    validate_generators(experiment, load_hosts=4)
    with pytest.raises(InputError, match=r"small\.yaml:5: load\.connections: 4 is too few for 5 generators"):
        validate_generators(experiment, load_hosts=5)


def test_the_load_of_profile_trials_is_checked_too(tmp_path: Path) -> None:
    by_requests = load(tool="hey", duration_s=None, request_count=100)
    experiment = read_scenario(tmp_path, load=by_requests, profile={"duration_s": 4})
    validate_generators(experiment, load_hosts=2)
    with pytest.raises(InputError, match=r"small\.yaml:7: profile\.duration_s: "):
        read_scenario(tmp_path, profile={"duration_s": 2.5})


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"shape": {"start_s": 1, "length_s": 2}}, "shape: needs a rate"),
        ({"rate": 9, "duration_s": 2, "shape": {"start_s": 1, "length_s": 2}}, "long enough for it"),
        ({"arrivals": "poisson"}, "arrivals: needs a rate"),
        ({"rate": 9, "tool": "vegeta", "arrivals": "poisson"}, "arrivals: vegeta does not support it"),
        ({"rate": 9, "tool": "h2load", "shape": {"start_s": 0, "length_s": 1}}, "does not support it"),
        ({"rate": {"share_of_capacity": 0.5}}, "share_of_capacity: needs capacity"),
        ({"rate": 9, "capacity": {"slo": {"p99_s": 1}}}, "cannot be combined with rate"),
    ],
)
def test_rates_that_cannot_be_are_refused(tmp_path: Path, fields: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_scenario(tmp_path, load=load(**{"tool": "openloop", "duration_s": 5, **fields}))


VALUE = "Bearer 5b1c-very-secret"


def _sent(experiment: Experiment) -> list[dict[str, object]]:
    return [dict(cell.load.revealed.request_mix[0].headers) for cell in experiment.cells]


def test_values_come_from_the_environment_or_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", VALUE)
    (tmp_path / "cookie.txt").write_text("sid=5b1c5b1c\n")
    headers = {"Authorization": {"env": "TOKEN"}, "X-Own": {"file": "cookie.txt"}}
    experiment = read_scenario(tmp_path, load=load(headers=headers))
    assert missing_secrets(experiment) == []
    assert _sent(experiment) == [{"Authorization": VALUE, "X-Own": "sid=5b1c5b1c"}]


def test_levels_name_variables_and_are_no_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALICE", "alice-alice")
    monkeypatch.setenv("BOB", "bob-bob-bob")
    factors = {"user": ["ALICE", "BOB"]}
    by_name = read_scenario(tmp_path, load=load(headers={"Cookie": {"env": "$user"}}), factors=factors)
    assert _sent(by_name) == [{"Cookie": "alice-alice"}, {"Cookie": "bob-bob-bob"}]
    with pytest.raises(InputError, match=r"small\.yaml:5: load\.headers: Cookie may hold a secret"):
        read_scenario(tmp_path, load=load(headers={"Cookie": "$user"}), factors=factors)


@pytest.mark.parametrize(
    ("source", "value", "problem"),
    [
        ({"env": "TOKEN"}, None, "{env: TOKEN}: this environment variable is not set"),
        ({"env": "TOKEN"}, "", "{env: TOKEN}: the value is empty"),
        ({"env": "TOKEN"}, "two\nlines-of-it", "{env: TOKEN}: the value has"),
        ({"file": "none.txt"}, None, "none.txt: No such file or directory"),
    ],
)
def test_a_missing_value_stops_a_run_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: dict[str, str], value: str | None, problem: str
) -> None:
    monkeypatch.delenv("TOKEN", raising=False)
    if value is not None:
        monkeypatch.setenv("TOKEN", value)
    experiment = read_scenario(tmp_path, load=load(headers={"Authorization": source}))
    (error,) = missing_secrets(experiment)
    assert str(error).startswith(f"{tmp_path / 'small.yaml'}:5: load.headers.Authorization: ")
    assert problem in str(error)
    assert not value or value not in str(error)


@pytest.mark.parametrize(
    "setting",
    [
        f"load.headers.Authorization={VALUE}",
        f"load.headers={{Cookie: {VALUE}}}",
        f"load={{requests: [{{headers: {{x-token: {VALUE}}}}}]}}",
    ],
)
def test_settings_are_stored_and_take_no_secret_in_clear(tmp_path: Path, setting: str) -> None:
    with pytest.raises(InputError, match="may hold a secret, which is not stored") as failure:
        read_scenario(tmp_path, settings=[setting])
    assert VALUE not in str(failure.value)
