"""Tests of the probe of a trial: the requests that it sends, and what becomes of the responses."""

from __future__ import annotations

import pytest

from benchkit.models.load import Load
from benchkit.run.steps.probe import probe_headers


@pytest.mark.parametrize(
    ("fields", "sent"),
    [
        ({}, [("Host", "a:80")]),
        ({"method": "POST"}, [("Host", "a:80"), ("Content-Length", "0")]),
        (
            {"method": "PUT", "body": "k=ü", "headers": {"content-length": "4", "host": "b"}},
            [("Content-Length", "4"), ("host", "b")],
        ),
        ({"keepalive": False}, [("Host", "a:80"), ("Connection", "close")]),
    ],
)
def test_a_probe_has_one_host_and_one_length(fields: dict[str, object], sent: list[tuple[str, str]]) -> None:
    load = Load.model_validate({"tool": "wrk", "connections": 1, **fields})
    assert probe_headers(load, load.request_mix[0], "a:80") == sent
