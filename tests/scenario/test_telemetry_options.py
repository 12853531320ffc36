from __future__ import annotations

from pathlib import Path

import pytest

from benchkit.errors import InputError
from benchkit.scenario.read import read_experiment
from benchkit.scenario.telemetry_options import Watching

SCENARIO = """\
name: watched
title: a server
question: How fast is it?
stacks: {{go: {{entry: app, services: {{app: {{backend: nethttp, role: sut, listen: 8080}}}}}}}}
load: {{tool: wrk, connections: 1, duration_s: 1}}
blocks: 1
scales: {{lab: {{}}}}
{telemetry}
"""


def telemetry_of(folder: Path, text: str) -> Watching | None:
    path = folder / "watched.yaml"
    path.write_text(SCENARIO.format(telemetry=text))
    return read_experiment(str(path), "lab").scenario.telemetry


def test_hosts_are_watched_every_second_unless_it_is_said_otherwise(tmp_path: Path) -> None:
    assert telemetry_of(tmp_path, "") == Watching(interval_s=1.0)
    assert telemetry_of(tmp_path, "telemetry: {interval_s: 0.1}") == Watching(interval_s=0.1)
    assert telemetry_of(tmp_path, "telemetry: {}") == Watching(interval_s=1.0)


@pytest.mark.parametrize("off", ["off", "false", "Off", '"off"'])
def test_it_can_be_off_however_yaml_reads_that(tmp_path: Path, off: str) -> None:
    assert telemetry_of(tmp_path, f"telemetry: {off}") is None


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("telemetry: {interval_s: 0.05}", "interval_s"),
        ("telemetry: {interval_s: 61}", "interval_s"),
        ("telemetry: {interval: 1}", "interval"),
        ("telemetry: on", "telemetry"),
    ],
)
def test_what_it_cannot_be_is_said_with_file_line_and_field(tmp_path: Path, text: str, field: str) -> None:
    with pytest.raises(InputError, match=rf"watched\.yaml:8.*{field}"):
        telemetry_of(tmp_path, text)
