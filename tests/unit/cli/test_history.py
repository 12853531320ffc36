"""`benchkit history`, `audit` and tags, from the command line."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.support.cli.fixtures import CommandResult
from tests.support.paths import TESTS

Cli = Callable[..., CommandResult]


@pytest.mark.usefixtures("stored")
def test_a_history_names_the_run_with_which_it_shifted(cli: Cli) -> None:
    shown = cli("history", "small")
    assert shown.code == 0, shown.err
    assert "shifts with run r08 (888888888888, version=1.8)" in shown.out
    row = next(line for line in shown.out.splitlines() if line.startswith("r08"))
    assert "← step" in row
    document = cli("history", "small", "--since", "2026-03-05", "--json").document()
    (series,) = document["series"]
    assert len(series["points"]) == 10
    assert [shift["first_run"] for shift in series["shifts"]] == ["r08"]
    missing = cli("history", "smal")
    assert missing.code == 2
    assert "did you mean 'small'" in missing.err


def test_published_results_are_audited(cli: Cli) -> None:
    rows = "".join(f"server{i},{97_000 - i},64\n" for i in range(30))
    found = cli("audit", "-", "--json", stdin=f"framework,requests/s,connections\n{rows}").document()
    assert [(each["check"], len(each["results"])) for each in found["findings"]] == [("plateau", 30)]
    output = TESTS / "fixtures" / "load" / "wrk"
    files = sorted(output.glob("*.txt"))[:1]
    audited = json.loads(cli("audit", *files, "--link", "1e3", "--json").out)
    assert {"link"} <= {each["check"] for each in audited["findings"]}
    wrong = cli("audit", "-", stdin="nothing of the kind")
    assert wrong.code == 2
    assert "neither output of a load tool nor a table" in wrong.err


@pytest.mark.parametrize("tag", ["version", "=1", "1=2", "a=", "a=1\n2"])
def test_a_tag_of_another_form_is_an_error(cli: Cli, tag: str) -> None:
    done = cli("run", "quickstart", "--tag", tag)
    assert done.code == 2
    assert "not of the form key=value" in done.err
