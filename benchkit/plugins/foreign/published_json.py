"""Rows in JSON documents as projects publish them: lists of rows, rows by name or test, and related lists. Pure.

A row is an object that states a rate of its own. Objects around it give it their texts and numbers. The key of a row,
or of a list of rows, names its server or its test. Two lists that are related, as the-benchmarker/web-frameworks
publishes them, are joined: `metrics` of a `label`, a `level` and a `value`, and `frameworks`. In `rawData`, as
TechEmpower publishes it, each test has a list of levels beside it.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic_core import from_json

from benchkit.plugins.foreign.published_columns import column_of
from benchkit.plugins.foreign.published_tables import RawTable

KEY = "benchkit key"
"""Heading of the column with the key under which a row stands."""
OUTER_KEY = "benchkit outer key"
"""Heading of the column with the key around it."""
LONGEST_TIME_S = 10.0
"""Median below which times without a unit are read as seconds: no published server takes 10 s."""
LONGEST_WINDOW_MS = 1e6
"""`duration_ms` above which it is in microseconds, as wrk's scripts print it."""
_WRAPPERS = {
    "results",
    "data",
    "frameworks",
    "servers",
    "tests",
    "rows",
    "items",
    "benchmarks",
    "result",
    "stats",
    "metrics",
    "summary",
    "runs",
}
_MAX_DEPTH = 8
_OPTIONS = {"opts", "options", "config", "configuration", "params", "parameters", "settings", "meta", "metadata"}
"""Keys of objects that state the load of the rows beside them, not a row."""
_LEVELS = {"plaintext": "pipelineConcurrencyLevels", "query": "queryIntervals", "update": "queryIntervals"}
_LEVELS |= {"cached-query": "cachedQueryIntervals"}
_TESTS = {*_LEVELS, "json", "db", "queries", "fortune", "fortunes", "updates"}
"""Names of TechEmpower's tests, which other projects use: such a key is a test, not a server."""


def json_table(text: str) -> RawTable | None:
    """Return the rows of a JSON document, or of one in each line, as one table; None for text without a row."""
    try:
        document = from_json(text)
    except ValueError:
        try:
            document = [from_json(line) for line in text.splitlines() if line.strip()]
        except ValueError:
            return None
    if isinstance(document, dict) and isinstance(document.get("rawData"), dict):
        rows = list(_by_level(document))
    else:
        rows = _related(document) if _is_related(document) else list(_rows(document, {}, ()))
    heads = list(dict.fromkeys(head for row in rows for head in row))
    return RawTable(heads, [{head: row.get(head, "") for head in heads} for row in rows]) if rows else None


def _rows(node: object, around: Mapping[str, str], keys: tuple[str, ...]) -> Iterator[dict[str, str]]:
    if len(keys) > _MAX_DEPTH:
        return
    if isinstance(node, list):
        for item in node:
            yield from _rows(item, around, keys)
    elif isinstance(node, dict):
        own = _scalars(node)
        options = {key for key, value in node.items() if key.lower() in _OPTIONS and isinstance(value, dict)}
        for key in options:
            own |= {"target rate" if each == "rate" else each: text for each, text in _scalars(node[key]).items()}
        below = {key: each for key, each in node.items() if isinstance(each, list | dict) and key not in options}
        with_rate = [key for key, value in below.items() if isinstance(value, dict) and _has_rate(_scalars(value))]
        if (_has_rate(own) or (own and len(with_rate) == 1)) and not any(map(_has_rows, below.values())):
            inner = {
                each if key.lower() in _WRAPPERS else f"{key} {each}": text
                for key, value in below.items()
                for each, text in _flat(value)
            }
            is_by_test = len(keys) > 1 and keys[-2].lower() in _TESTS
            places = (OUTER_KEY, KEY) if is_by_test else (KEY, OUTER_KEY)
            yield dict(around) | own | inner | dict(zip(places, keys[::-1], strict=False))
            return
        for key, value in below.items():
            is_wrapper = key.lower() in _WRAPPERS or (len(below) == 1 and isinstance(value, list))
            yield from _rows(value, {**around, **own}, keys if is_wrapper else (*keys, key))


def _flat(value: object) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if isinstance(inner, dict):
                yield from ((f"{key} {below}", text) for below, text in _flat(inner))
            elif not isinstance(inner, list):
                yield key, _text(inner)


def _has_rows(value: object) -> bool:
    return isinstance(value, list) and any(isinstance(item, dict) and _has_rate(_scalars(item)) for item in value)


def _scalars(item: Mapping[str, Any]) -> dict[str, str]:
    return {key: _text(value) for key, value in item.items() if not isinstance(value, list | dict)}


def _has_rate(row: Mapping[str, str]) -> bool:
    return any((column := column_of(head, [cell])) is not None and column.field == "rps" for head, cell in row.items())


def _text(value: object) -> str:
    return "" if value is None or isinstance(value, bool) else str(value)


def _by_level(document: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """Yield a row for each test, framework and level, of connections or of queries.

    Latencies of `plaintext` are omitted: they are of batches of 16 pipelined requests.
    """
    for test, of_test in document["rawData"].items():
        levels = document.get(_LEVELS.get(test, "concurrencyLevels")) or ()
        most = max((n for n in document.get("concurrencyLevels") or () if isinstance(n, int)), default="")
        for framework, runs in of_test.items() if isinstance(of_test, dict) else ():
            for level, run in zip(levels, runs if isinstance(runs, list) else (), strict=False):
                if not isinstance(run, dict) or not run.get("totalRequests"):
                    continue
                is_queries = "Intervals" in _LEVELS.get(test, "")
                yield {
                    "framework": framework,
                    "test": f"{test} {level}" if is_queries else test,
                    "connections": _text(most if is_queries else level),
                    "requests": _text(run["totalRequests"]),
                    "duration (s)": _text(document.get("duration")),
                    "timeouts": _text(run.get("timeout")),
                    "5xx": _text(run.get("5xx")),
                } | (
                    {}
                    if test == "plaintext"
                    else {f"{key} latency": _text(run.get(f"latency{key}")) for key in ("Avg", "Max")}
                )


def _is_related(document: object) -> bool:
    if not isinstance(document, dict) or not isinstance(document.get("metrics"), list):
        return False
    return all(
        isinstance(each, dict) and {"label", "value", "framework_id"} <= each.keys() for each in document["metrics"]
    )


def _related(document: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return a row for each framework and level; a value below zero, and a time or size of zero, is not stated."""
    names = {each.get("id"): each for each in document.get("frameworks", ()) if isinstance(each, dict)}
    values: defaultdict[tuple[Any, Any], dict[str, float]] = defaultdict(dict)
    for each in document["metrics"]:
        value = each["value"]
        if isinstance(value, int | float) and value >= 0:
            values[each["framework_id"], each.get("level")][str(each["label"])] = float(value)
    unit = _unit_of_times(list(values.values()))
    return [
        {"name": _name(names.get(framework, {}), framework), "connections": _text(level)} | dict(_cells(measured, unit))
        for (framework, level), measured in values.items()
    ]


def _name(framework: Mapping[str, Any], number: object) -> str:
    label, language = framework.get("label"), framework.get("language")
    return f"{label or number} ({language})" if language else str(label or number)


def _unit_of_times(rows: Sequence[Mapping[str, float]]) -> str:
    times = [
        value for row in rows for label, value in row.items() if label in {"percentile50", "percentile_50"} and value
    ]
    return "us" if times and statistics.median(times) >= LONGEST_TIME_S else "s"


def _cells(measured: Mapping[str, float], unit: str) -> Iterator[tuple[str, str]]:
    """Yield headings and cells as other tables have them."""
    for label, value in measured.items():
        if label == "duration_ms":
            yield "duration", f"{value / (1e6 if value > LONGEST_WINDOW_MS else 1e3)} s"
        elif label == "total_requests_per_s":
            yield "requests/s", str(value)
        elif label == "total_bytes_received":
            if value and (window := measured.get("duration_ms")):
                yield "bytes/s", str(value / (window / (1e6 if window > LONGEST_WINDOW_MS else 1e3)))
        elif "latency" in label or label.startswith("percentile"):
            if value:
                yield f"{label} ({unit})", str(value)
        else:
            yield label.replace("socket_connection", "connect"), str(value)
