"""Findings in outputs of load tools: contradictions, failures, limits of the tool."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from benchkit.loadtools.findings import UNSTATED, StatedLoad, find, stated_load
from benchkit.loadtools.formats import AUTO, read_run
from benchkit.models.load_result import Errors, Latency, LoadResult, Note
from tests.support.paths import TESTS

FIELD = TESTS / "fixtures" / "field"
TIMES = frozenset(Latency.model_fields)


def codes(fields: Mapping[str, object], load: StatedLoad = UNSTATED) -> list[tuple[str, str]]:
    """Return the findings in a result of these figures; those of `Latency` are its own, `p99` a percentile."""
    percentiles = {name[1:]: time for name, time in fields.items() if name[0] == "p" and name[1:].isdigit()}
    times = {"corrected": False, "percentiles": percentiles, **{k: v for k, v in fields.items() if k in TIMES}}
    others = {name: each for name, each in fields.items() if name not in TIMES and name[1:] not in percentiles}
    result = LoadResult.model_validate({"tool": "ab", **others, "latency": times})
    return [(finding.code, finding.severity) for finding in find(result, load)]


LITTLE, IDLE = [("littles-law", "invalid")], [("littles-law", "suspect")]
ERRORS = [("errors", "invalid")]
FULL = {"rps": 1000.0, "connections": 10}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({**FULL, "mean_s": 0.010}, []),
        ({**FULL, "mean_s": 0.013}, LITTLE),
        ({**FULL, "mean_s": 0.013, "corrected": None}, []),
        ({**FULL, "mean_s": 0.005}, LITTLE),
        ({**FULL, "mean_s": 0.005, "resolution_s": 0.01}, []),
        ({**FULL, "mean_s": 0.005, "tool": "wrk", "corrected": True}, LITTLE),
        ({**FULL, "mean_s": 0.005, "tool": "oha"}, IDLE),
        ({**FULL, "mean_s": 0.005, "tool": "k6"}, []),
        ({**FULL, "mean_s": 0.005, "tool": "vegeta"}, []),
        ({**FULL, "max_s": 0.005}, LITTLE),
        ({**FULL, "mean_s": 0.005, "duration_s": 0.5, "requests": 500}, []),
        ({**FULL, "mean_s": 0.005, "requests": 49}, []),
        ({**FULL, "mean_s": 0.005, "notes": (Note(code="open-model", message="at a rate"),)}, []),
        ({**FULL, "mean_s": 0.100}, []),  # streams that nothing states
        ({"requests": 10_000, "failed": 1}, [("errors", "suspect")]),
        ({"requests": 10_000, "failed": 100}, ERRORS),
        ({"requests": 10_000, "failed": 100, "failed_length": 100}, []),
        ({"availability": 0.9995}, [("errors", "suspect")]),
        ({"requests": 100, "status": {"200": 60, "308": 40}, "non_2xx": 40}, []),
        ({"requests": 100, "status": {"200": 60, "404": 40}, "non_2xx": 40}, ERRORS),
        ({"requests": 500, "p50": 0.1, "p99": 0.3}, [("too-few-samples", "suspect")]),
        ({"requests": 1000, "p99": 0.3}, []),
        ({"complete": False}, [("incomplete", "invalid")]),
        ({"dropped": 12, "tool": "k6"}, [("dropped-iterations", "suspect")]),
        ({"notes": (Note(code="hey-cap", message="hey keeps a million"),)}, [("hey-cap", "suspect")]),
        ({"connections": 396, "errors": Errors(connect=155)}, [("connect-errors", "invalid")]),
        ({"connections": 396, "errors": Errors(connect=3)}, [("connect-errors", "suspect")]),
        ({"tool": "wrk", "requests": 1000, "errors": Errors(read=995)}, []),  # one for each answer
        ({"tool": "wrk", "requests": 1000, "errors": Errors(read=50)}, ERRORS),
        ({"p50": 0.009, "p99": 0.005}, [("order-of-times", "invalid")]),
        ({"p99": 0.009, "max_s": 0.005}, [("order-of-times", "invalid")]),
        ({"mean_s": 0.060, "max_s": 0.050}, [("order-of-times", "invalid")]),
        ({"mean_s": 0.020, "p50": 0.006, "p99": 0.009, "max_s": 0.050}, [("order-of-times", "suspect")]),
        ({"mean_s": 0.002, "p50": 0.006, "p99": 0.009}, [("order-of-times", "suspect")]),
        ({"mean_s": 0.002, "p50": 0.006, "p99": 0.009, "resolution_s": 0.01}, []),
        ({"mean_s": 0.001, "p50": 0.006, "p99": 0.009}, [("order-of-times", "invalid")]),
        (
            {"p50": 0.0227, "p75": 0.0227, "p99": 0.0227, "max_s": 0.0227, "resolution_s": 1e-5},
            [("equal-times", "suspect")],
        ),
    ],
)
def test_figures_of_one_output(fields: dict[str, object], expected: list[tuple[str, str]]) -> None:
    assert codes(fields) == expected


@pytest.mark.parametrize(
    ("load", "fields", "expected"),
    [
        (StatedLoad(streams=16), {"rps": 16000.0, "connections": 10, "mean_s": 0.010}, []),
        (StatedLoad(streams=16), {"rps": 16000.0, "connections": 10, "mean_s": 0.001}, LITTLE),
        (StatedLoad(streams=1), {"rps": 1000.0, "connections": 10, "mean_s": 0.1}, LITTLE),
        (StatedLoad(is_held=True), {**FULL, "mean_s": 0.001}, []),
        (StatedLoad(rate=600, is_held=True), {"rps": 500.0, "connections": 10}, [("rate-held", "invalid")]),
        (StatedLoad(rate=100, is_held=True), {"rps": 82.0, "duration_s": 2.4}, []),
        (
            StatedLoad(rate=50, is_held=True),
            {"rps": 49.4, "requests": 5000, "duration_s": 100.0, "tool": "bombardier"},
            [],
        ),
    ],
)
def test_a_load_that_the_command_line_states(
    load: StatedLoad, fields: dict[str, object], expected: list[tuple[str, str]]
) -> None:
    assert codes(fields, load) == expected


@pytest.mark.parametrize(
    ("tool", "text", "expected"),
    [
        ("h2load", "$ h2load -n100 -c10 -m 32 https://x\nfinished in 1s", StatedLoad(10, 32)),
        ("h2load", "$ h2load -c10 --rps=8 https://x", StatedLoad(10, is_held=True)),
        ("autocannon", '{"connections":40,"pipelining":10}', StatedLoad(streams=10)),
        ("wrk2", "$ wrk -t2 -c100 -d30s -R2k http://x", StatedLoad(100, rate=2000, is_held=True)),
        ("fortio", "Starting at 8 qps with 4 thread(s)", StatedLoad(rate=8, is_held=True)),
        ("fortio", "Starting at max qps with 4 thread(s)", StatedLoad()),
        ("oha", "$ oha -z 1m --burst-delay 1s \\\n  --burst-rate 5 http://x", StatedLoad(is_held=True)),
        ("hey", "C:\\> hey -n 100 -c 118 http://x", StatedLoad(118)),
        ("hey", "a text on hey, and nothing else", StatedLoad()),
    ],
)
def test_what_texts_say_of_their_load(tool: str, text: str, expected: StatedLoad) -> None:
    assert stated_load(tool, text) == expected


@pytest.mark.parametrize(
    ("name", "tool", "figures", "expected"),
    [
        ("h2load-errored-rate", "h2load", {"requests": 100_000}, ERRORS),
        ("h2load-http1-dead-client", "h2load", {"rps": 14317.36}, ERRORS),
        ("hey-connections-in-command", "hey", {"connections": 118}, []),
        ("k6-grpc-summary", "k6", {"requests": None, "complete": True}, []),
        ("vegeta-mean-below-p99", "vegeta", {"requests": 15000}, [("order-of-times", "invalid")]),
        ("vegeta-rate-is-not-throughput", "vegeta", {"rps": 7940.9}, [("rate-held", "invalid")]),
        ("wrk2-beyond-its-rate", "wrk2", {"rps": 29.9}, [("incomplete", "invalid"), ("rate-held", "invalid")]),
    ],
)
def test_outputs_of_public_threads(
    name: str, tool: str, figures: dict[str, object], expected: list[tuple[str, str]]
) -> None:
    text = (FIELD / f"{name}.txt").read_text()
    result, load = read_run(AUTO, text, where=name, command="benchkit parse {tool}")
    assert result.tool == tool
    assert {field: getattr(result, field) for field in figures} == figures
    assert [(finding.code, finding.severity) for finding in find(result, load)] == expected
