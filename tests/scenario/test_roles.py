from __future__ import annotations

from pathlib import Path

import pytest

from benchkit.errors import InputError
from benchkit.scenario.read import read_experiment

SCENARIO = """\
name: small
title: Small
question: Which?
roles: {sut: {}, load: {}}
stacks:
  one: {entry: app, services: {app: {backend: nethttp, listen: 8080}}}
load: {tool: wrk, connections: 4, duration_s: 1}
blocks: 2
"""


@pytest.mark.parametrize(
    ("roles", "message"),
    [
        ("{sut: {}, load: {quota: 0.5}}", "small.yaml:4: roles.load.quota: a quota limits services, and no service has the role 'load'"),
        ("{sut: {quota: 0}, load: {}}", "small.yaml:4: roles.sut.quota: found 0"),
        ("{sut: {cpus: 3-1}, load: {}}", "small.yaml:4: roles.sut.cpus"),
        ("{sut: {}}", "no role 'load' to generate the load"),
    ],
)  # fmt: skip
def test_a_wrong_role_names_its_place(tmp_path: Path, roles: str, message: str) -> None:
    path = tmp_path / "small.yaml"
    path.write_text(SCENARIO.replace("{sut: {}, load: {}}", roles))
    with pytest.raises(InputError) as caught:
        read_experiment(str(path))
    assert message in str(caught.value)


def test_a_quota_of_servers_is_fine(tmp_path: Path) -> None:
    path = tmp_path / "small.yaml"
    path.write_text(SCENARIO.replace("{sut: {}, load: {}}", "{sut: {quota: 0.5, cpus: 0-1}, load: {}}"))
    assert read_experiment(str(path)).scenario.roles["sut"].quota == 0.5
