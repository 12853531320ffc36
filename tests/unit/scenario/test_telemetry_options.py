from __future__ import annotations

from pathlib import Path

import pytest

from benchkit.errors import InputError
from benchkit.scenario.model import TelemetryOptions
from benchkit.scenario.read import read_experiment
from tests.support.builders import experiment, read_scenario, write_scenario


def test_hosts_are_sampled_every_second_by_default() -> None:
    assert experiment().scenario.telemetry == TelemetryOptions(interval_s=1.0)
    assert experiment(telemetry={"interval_s": 0.1}).scenario.telemetry == TelemetryOptions(interval_s=0.1)
    assert experiment(telemetry={}).scenario.telemetry == TelemetryOptions(interval_s=1.0)


@pytest.mark.parametrize("off", ["off", "false", "Off", '"off"'])
def test_telemetry_is_off_in_yaml_1_1_and_1_2(tmp_path: Path, off: str) -> None:
    path = write_scenario(tmp_path)
    path.write_text(f"{path.read_text()}telemetry: {off}\n")
    assert read_experiment(str(path)).scenario.telemetry is None


@pytest.mark.parametrize(
    ("telemetry", "field"),
    [
        ({"interval_s": 0.05}, "telemetry.interval_s"),
        ({"interval_s": 61}, "telemetry.interval_s"),
        ({"interval": 1}, "telemetry.interval"),
        ("on", "telemetry"),
    ],
)
def test_wrong_options_are_reported_with_their_line(tmp_path: Path, telemetry: object, field: str) -> None:
    with pytest.raises(InputError, match=rf"small\.yaml:7: {field}: "):
        read_scenario(tmp_path, telemetry=telemetry)
