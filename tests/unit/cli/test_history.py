"""`benchkit history` and tags, from the command line."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.cli.fixtures import CommandResult

Cli = Callable[..., CommandResult]


@pytest.mark.usefixtures("stored")
def test_a_history_names_the_run_with_which_it_shifted(cli: Cli) -> None:
    shown = cli("history", "small")
    assert shown.code == 0, shown.err
    assert "shifts with run r08 (888888888888, version=1.8)" in shown.out
    row = next(line for line in shown.out.splitlines() if line.startswith("r08"))
    assert "← shift" in row
    document = cli("history", "small", "--since", "2026-03-05", "--json").document()
    (series,) = document["series"]
    assert len(series["points"]) == 10
    assert [shift["first_run"] for shift in series["shifts"]] == ["r08"]
    missing = cli("history", "smal")
    assert missing.code == 2
    assert "did you mean 'small'" in missing.err


@pytest.mark.parametrize("tag", ["version", "=1", "1=2", "a=", "a=1\n2"])
def test_a_tag_of_another_form_is_an_error(cli: Cli, tag: str) -> None:
    done = cli("run", "quickstart", "--tag", tag)
    assert done.code == 2
    assert "not of the form key=value" in done.err
