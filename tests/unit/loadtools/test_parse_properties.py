"""Properties of every parser: for any text, and for damaged and truncated outputs."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchkit.errors import ParseError
from benchkit.loadtools.formats import FORMATS
from benchkit.loadtools.text import prepare
from benchkit.models.load_result import LoadResult
from tests.support.paths import TESTS

FIXTURES = TESTS / "fixtures" / "load"
OUTPUTS = {path.relative_to(FIXTURES): path.read_text() for path in sorted(FIXTURES.glob("*/*.txt"))}
ROWS = re.compile(r"csv")
"""Files of rows, whose figures are of the rows that they have."""


def _figures(result: LoadResult) -> Iterator[tuple[str, float]]:
    plain = result.model_dump(exclude={"complete", "notes"})
    latency = plain.pop("latency")
    groups: tuple[dict[str, Any], ...] = (plain, plain.pop("errors"), plain.pop("status"), latency.pop("percentiles"))
    for group in (*groups, latency):
        yield from ((name, value) for name, value in group.items() if isinstance(value, int | float))


@settings(max_examples=30, deadline=None)
@given(text=st.text(), data=st.data())
def test_any_text_gives_a_result_or_a_parse_error(text: str, data: st.DataObject) -> None:
    lines = data.draw(st.sampled_from(list(OUTPUTS.values()))).splitlines()
    mixed = "\n".join([*lines[: len(lines) // 2], text, *lines[len(lines) // 2 :]])
    for each in FORMATS.values():
        for damaged in (text, mixed):
            try:
                result = each.parse(prepare(damaged).text)
            except ParseError:
                continue
            assert all(math.isfinite(value) and value >= 0 for _, value in _figures(result))


@pytest.mark.parametrize("path", [path for path in OUTPUTS if not ROWS.search(path.name)], ids=str)
def test_a_truncated_output_loses_figures_and_gets_no_wrong_ones(path: Any) -> None:  # noqa: ANN401 - a path
    text, parse = OUTPUTS[path], FORMATS[path.parent.name].parse
    try:
        whole = dict(_figures(parse(text)))
    except ParseError:
        pytest.skip("an output that is refused")
    derived = {"duration_s", "rps", "requests", "failed", "users", "threads", "mean_s", "resolution_s"}
    for end in random.Random(0).sample(range(len(text)), min(60, len(text))):  # noqa: S311 - places in a text
        try:
            result = parse(text[:end])
        except ParseError:
            continue
        for name, value in _figures(result):
            if not result.complete and name in derived:
                continue
            assert value == pytest.approx(whole.get(name), rel=0.01), (end, name)
