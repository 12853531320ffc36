"""`benchkit fields` as users run it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from benchkit.scenario.schema import scenario_schema

if TYPE_CHECKING:
    from tests.support.cli.fixtures import CommandResult

Cli = Callable[..., "CommandResult"]


def test_fields_are_listed_by_part(cli: Cli) -> None:
    everything = cli("fields")
    assert everything.code == 0
    assert "\nblocks: 10\n    repetitions of every cell" in everything.out
    assert "\n  nginx            nginx or one of its forks" in everything.out
    load = cli("fields", "load").out
    assert "\nconnections: 64\n    open connections\n    a whole number above 0; required\n" in load
    documents = cli("fields", "inventory", "--json").document()
    assert [document["part"] for document in documents] == ["inventory"]
    assert {"name", "type", "required", "default", "example", "description"} == set(documents[0]["fields"][0])


def test_the_schema_is_printed_whole(cli: Cli) -> None:
    assert cli("fields", "--schema").document() == scenario_schema()


def test_what_has_no_fields_is_refused(cli: Cli) -> None:
    unknown = cli("fields", "loads")
    assert unknown.code == 2
    assert unknown.err.startswith("benchkit: no part 'loads': did you mean 'load'? allowed: load, ")
