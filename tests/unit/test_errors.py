"""Exit codes, and suggestions for names that do not exist."""

from __future__ import annotations

import pytest

from benchkit.cli.app import app
from benchkit.errors import EXIT_CODES_HELP, suggestion
from tests.support.paths import ROOT


@pytest.mark.parametrize(
    ("wanted", "start"),
    [
        ("rsp", "did you mean 'rps'?"),
        ("p99", "did you mean 'latency_p99_s'?"),
        ("p9", "allowed: "),
        ("", "allowed: "),
    ],
)
def test_a_similar_name_is_suggested(wanted: str, start: str) -> None:
    assert suggestion(wanted, ["rps", "latency_p99_s", "latency_p999_s"]).startswith(start)


def test_of_many_names_the_most_similar_are_listed() -> None:
    percentiles = [f"latency_p{percentile}_s" for percentile in (50, 90, 99)]
    found = suggestion("latency_p95_s", [f"column_{number}" for number in range(40)] + percentiles)
    assert found.startswith(f"did you mean 'latency_p99_s'? allowed: {', '.join(reversed(percentiles))}")
    assert found.endswith(" and 35 others")


def test_readme_and_help_state_the_same_exit_codes() -> None:
    assert EXIT_CODES_HELP in " ".join((ROOT / "README.md").read_text().split())
    assert app.info.epilog == EXIT_CODES_HELP
