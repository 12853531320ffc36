from __future__ import annotations

from pathlib import Path

import pytest

from benchkit.errors import InputError
from benchkit.models.thresholds import Thresholds
from tests.support.builders import experiment, read_scenario


def test_a_scenario_overrides_some_thresholds() -> None:
    thresholds = experiment(thresholds={"server_cpu": 0.3}).scenario.thresholds
    assert thresholds == Thresholds(server_cpu=0.3)
    assert thresholds.generator_cpu == 0.9


@pytest.mark.parametrize(
    ("thresholds", "field"),
    [({"server_cpu": 1.5}, "thresholds.server_cpu"), ({"no_such": 1}, "thresholds.no_such")],
)
def test_faults_name_line_and_field(tmp_path: Path, thresholds: dict[str, float], field: str) -> None:
    with pytest.raises(InputError) as caught:
        read_scenario(tmp_path, thresholds=thresholds)
    assert f"small.yaml:7: {field}: " in str(caught.value)


def test_every_threshold_has_a_description() -> None:
    assert all(len(field.description or "") > 40 for field in Thresholds.model_fields.values())
