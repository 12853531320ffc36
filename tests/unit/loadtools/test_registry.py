"""The registered load tools: alike in shape, with everything elsewhere that a tool needs."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from benchkit.cli.lab import lab_programs
from benchkit.hosts import facts, packages
from benchkit.loadtools import registry
from benchkit.loadtools.registry import TOOLS
from benchkit.loadtools.tool import ALWAYS
from benchkit.models.load import Load
from benchkit.models.protocol import is_tls
from tests.support.paths import TESTS

PACKAGE = Path(registry.__file__).parent
FIXTURES = TESTS / "fixtures" / "load"
README = PACKAGE / "README.md"


@pytest.mark.parametrize("name", TOOLS)
def test_a_tool_has_a_command_and_a_format_in_one_module(name: str) -> None:
    module = importlib.import_module(f"benchkit.loadtools.tools.{name}")
    assert module.TOOL is TOOLS[name]
    assert module.FORMAT is TOOLS[name].format
    assert module.FORMAT.tool == name
    assert TOOLS[name].options <= Load.model_fields.keys() - ALWAYS


@pytest.mark.parametrize("name", TOOLS)
def test_a_tool_that_takes_a_rate_says_how_it_holds_it(name: str) -> None:
    assert ("rate" in TOOLS[name].options) == (TOOLS[name].rate is not None)


@pytest.mark.parametrize("name", TOOLS)
def test_a_tool_that_speaks_tls_says_how_it_verifies_and_resumes(name: str) -> None:
    assert any(map(is_tls, TOOLS[name].protocols)) == (TOOLS[name].tls is not None)


@pytest.mark.parametrize("name", TOOLS)
def test_hosts_can_have_the_program_of_a_tool(name: str) -> None:
    program = TOOLS[name].required_program
    if program is None:
        return
    assert program in packages.PROGRAMS, (
        f"add {program!r} to PROGRAMS in benchkit/hosts/packages.py: no host could be prepared for {name}"
    )
    assert program in facts.PROGRAMS, (
        f"add {program!r} to PROGRAMS in benchkit/hosts/facts.py: hosts would never be asked for it, and lack it"
    )
    assert (program in lab_programs()) == (packages.PROGRAMS[program].build is None)


@pytest.mark.parametrize("name", TOOLS)
def test_a_tool_has_recorded_outputs(name: str) -> None:
    assert list((FIXTURES / name).glob("*.txt"))


def test_the_page_on_load_tools_has_a_row_for_each_in_every_table() -> None:
    assert sorted(re.findall(r"^\| `(\w+)` \|", README.read_text(), re.MULTILINE)) == sorted([*TOOLS] * 4)
