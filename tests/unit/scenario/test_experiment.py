from __future__ import annotations

from pathlib import Path

import pytest

from benchkit.errors import InputError
from benchkit.scenario.experiment import UsedTuning
from tests.support.builders import Fields, read_scenario


def used_tuning(folder: Path, name: str, **fields: object) -> UsedTuning:
    (used,) = read_scenario(folder, tuning=[{"profile": name, **fields}]).tuning
    return used


def test_a_tuning_may_be_a_file_beside_the_scenario(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("description: Mine\nsysctl: {net.core.somaxconn: 7}\nlimits: {nofile: 99}\n")
    settings = used_tuning(tmp_path, "mine.yaml").settings
    assert settings.sysctl == {"net.core.somaxconn": 7}
    assert settings.limits.nofile == 99


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("description: x\nsysctl:\n  net.core: {somaxconn: 7}\n", "mine.yaml:3: sysctl.net.core"),
        ("description: x\nsysctls: {}\n", "mine.yaml:2: sysctls: no such field; did you mean 'sysctl'?"),
        ("description: x\nsysctl: {net.core.somaxconn: 1.5}\n", "mine.yaml:2: sysctl.net.core.somaxconn"),
        ("description: x\nsysctl: {net.core.somaxconn: '1; rm'}\n", "mine.yaml:2: sysctl.net.core.somaxconn"),
        ("description: x\nlimits: {nofile: 0}\n", "mine.yaml:2: limits.nofile: found 0"),
        (
            "description: x\nlimits: {nofiles: 1}\n",
            "mine.yaml:2: limits.nofiles: no such field; did you mean 'nofile'?",
        ),
    ],
)
def test_faults_of_a_tuning_name_its_own_file(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "mine.yaml").write_text(text)
    with pytest.raises(InputError) as caught:
        used_tuning(tmp_path, "mine.yaml")
    assert message in str(caught.value)


def test_the_levels_of_a_factor_are_tunings(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("description: Mine\nsysctl: {net.core.somaxconn: 7}\n")
    fields: Fields = {"tuning": [{"profile": "reuseport"}, {"profile": "$kernel", "roles": ["load"]}]}
    read = read_scenario(tmp_path, **fields, factors={"kernel": ["none", "nginx-vs-go", "mine.yaml"]})
    assert [used.use.profile for used in read.run_tuning] == ["reuseport"]
    by_cell = {cell.cell_id: read.cell_tuning(cell.levels) for cell in read.cells}
    assert {name: [used.settings.description for used in tunings] for name, tunings in by_cell.items()} == {
        "kernel=none": [],
        "kernel=nginx-vs-go": ["Server of the study of 2013, nginx against Go"],
        "kernel=mine.yaml": ["Mine"],
    }
    assert by_cell["kernel=mine.yaml"][0].use.roles == ("load",)


@pytest.mark.parametrize(
    ("tuning", "levels", "message"),
    [
        ("$kernel", ["reusepor"], "factors.kernel.0: no tuning 'reusepor'; did you mean 'reuseport'?"),
        ("$kernel", ["none", 7], "factors.kernel.1: no tuning '7'"),
        ("$kernal", ["none"], "tuning.0.profile: $kernal refers to no factor; did you mean 'kernel'?"),
    ],
)
def test_levels_that_are_no_tunings_are_reported(
    tmp_path: Path, tuning: str, levels: list[object], message: str
) -> None:
    with pytest.raises(InputError) as caught:
        read_scenario(tmp_path, tuning=[{"profile": tuning}], factors={"kernel": levels})
    assert message in str(caught.value)
