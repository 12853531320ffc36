from __future__ import annotations

from pathlib import Path

import pytest

from benchkit.errors import InputError
from benchkit.scenario.cells import validate_generators
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


def test_reading_a_scenario_checks_the_smallest_number_of_load_hosts(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"load\.connections: 4 is too few for 5 generators"):
        read_scenario(tmp_path, load=load(connections=4), roles={"sut": {}, "load": {"hosts": 5}})


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"shape": {"form": "step", "start_s": 1, "length_s": 2}}, "shape: needs a rate"),
        ({"rate": 9, "duration_s": 2, "shape": {"form": "step", "start_s": 1, "length_s": 2}}, "that it ends in"),
        ({"arrivals": "poisson"}, "arrivals: needs a rate"),
        ({"rate": 9, "tool": "vegeta", "arrivals": "poisson"}, "arrivals: vegeta does not support it"),
        ({"rate": 9, "tool": "h2load", "shape": {"form": "ramp", "start_s": 0, "length_s": 1}}, "does not support it"),
        ({"rate": {"share_of_capacity": 0.5}}, "share_of_capacity: needs capacity"),
        ({"rate": 9, "capacity": {"slo": {"p99_s": 1}}}, "excludes rate"),
    ],
)
def test_rates_that_cannot_be_are_refused(tmp_path: Path, fields: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_scenario(tmp_path, load=load(**{"tool": "openloop", "duration_s": 5, **fields}))
