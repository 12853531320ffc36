from __future__ import annotations

from pathlib import Path

import pytest

from benchkit.errors import InputError
from tests.support.builders import experiment, read_scenario


@pytest.mark.parametrize(
    ("roles", "message"),
    [
        (
            {"sut": {}, "load": {"quota": 0.5}},
            "small.yaml:7: roles.load.quota: a quota limits services, and no service has the role 'load'",
        ),
        ({"sut": {"quota": 0}, "load": {}}, "small.yaml:7: roles.sut.quota: found 0"),
        ({"sut": {"cpus": "3-1"}, "load": {}}, "small.yaml:7: roles.sut.cpus"),
        ({"sut": {}}, "small.yaml:7: roles: no role 'load' to generate the load"),
    ],
)
def test_a_wrong_role_is_reported_with_its_line(tmp_path: Path, roles: dict[str, object], message: str) -> None:
    with pytest.raises(InputError) as caught:
        read_scenario(tmp_path, roles=roles)
    assert message in str(caught.value)


def test_services_may_have_a_quota() -> None:
    roles = experiment(roles={"sut": {"quota": 0.5, "cpus": "0-1"}, "load": {}}).scenario.roles
    assert roles["sut"].quota == 0.5
