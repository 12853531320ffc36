"""The project's English: docstrings of the right form, and the field's terms instead of private ones."""

from __future__ import annotations

import ast
import itertools
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.paths import ROOT

PRIVATE_WORDS = {
    "crew": "generator group",
    "drove": "generator run",
    "fates?": "exclusion, reason, status",
    "foresight|foresee[ns]?": "power analysis",
    "guardians?": "watchdog",
    "dearer": "more expensive",
    "bur(?:y|ies|ied)": "reap, terminate",
    "voids?|voided": "invalidate",
    "unmade": "skipped check",
    "anew": "again",
    "(?:take|taken|takes|taking|took) up": "resume",
    "(?:is|was|were|been|blocks?) cut(?: off| by)?": "interrupted",
    "carr(?:y|ies|ied|ying) out": "run, execute",
    "not carried": "unsupported, skipped",
    "put(?:s|ting)? back": "restore",
    "(?:lay|lays|laid|laying) (?:it |them |one |its own )?over": "override",
    "fine if": "does nothing if already",
    "may stand": "repeatable",
    "under way": "in flight, running",
    "to be known": "notes, caveats",
    "what (?:it|they|a design|the design|its design) will show": "statistical power",
    "(?:what|how) (?:has |had )?(?:became|become) of": "result of",
    "com(?:e|es|ing) again|came again": "is repeated",
    "let(?:s|ting)? go": "release, remove",
    "(?:is|be|was) had": "is available",
    "(?:said|stands?|stood) twice": "is repeated",
    "worthless": "unusable",
    "hurry": "sample at once",
    "weigh(?:s|ed|ing)?": "measure",
    "controller was heard": "last heartbeat",
}
"""Words of a private language that the project once used, each with the standard term."""

WORD = re.compile("|".join(rf"\b(?:{pattern})\b" for pattern in PRIVATE_WORDS), re.IGNORECASE)

STORED_NAMES = re.compile(r'"(?:foresight|void)"|\bvoid\(|: void\b|void 0')
"""Names that users and stored files rely on, and JavaScript's own word."""

NAMES = frozenset(
    [
        "Course",
        "Book",
        "Site",
        "Slot",
        "Crew",
        "Drove",
        "Member",
        "Ground",
        "Fate",
        "Standing",
        "Raised",
        "Unmade",
        "Unlike",
        "Foresight",
        "Pace",
    ]
)
"""Class names that say nothing about the thing."""

HEADLESS = re.compile(
    r"(?:What|Whether|How|Where|Why|Which|Who|Whose|When|While|As far|As many|So many|Such)\b"
    r"|(?s:.*)(?:(?<!\S)Whether\b|^(?:What|How|Why)\b.*:$)",
    re.MULTILINE,
)
"""Clauses without a main verb. At the start of a docstring ruff's D401 does not see them in classes, modules,
properties and constants. Further on, these are a sentence that begins with "Whether", and a heading of a list.
"""

TEXT_FILES = {".py", ".md", ".go", ".js", ".yaml", ".j2", ".html", ".css", ".lua", ".ipynb", ".toml"}

FOREIGN = ("tests/fixtures/", "notebooks/recorded/", "tests/qualify/report/axe/", "LICENSE")
"""Texts from elsewhere: outputs of tools, recorded runs, third-party licences."""


def _files() -> list[Path]:
    command = ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    names = [name for name in listed.split("\0") if name and not name.startswith(FOREIGN)]
    return [ROOT / name for name in names if Path(name).suffix in TEXT_FILES and (ROOT / name).is_file()]


FILES = _files()
PYTHON = [file for file in FILES if file.suffix == ".py"]


DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


class Documented(NamedTuple):
    """Docstrings and classes of a module."""

    texts: list[tuple[int, str]]
    """Line and text of its docstrings, and of strings that document a constant or field."""
    classes: list[tuple[int, str]]
    """Line and name."""


@cache
def _read(file: Path) -> Documented:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    statements = list(_statements(tree))
    classes = [(node.lineno, node.name) for node in statements if isinstance(node, ast.ClassDef)]
    return Documented([text for node in statements for text in _documented(node)], classes)


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a module or statement and, without expressions, which are most of a tree, all statements within it."""
    yield node
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
            yield from _statements(child)


def _documented(node: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield line and text of the docstring of a node, and of the strings that document what it assigns."""
    if isinstance(node, DOCUMENTED) and (text := ast.get_docstring(node)):
        yield node.body[0].lineno, text
    body = getattr(node, "body", None)
    for statement, following in itertools.pairwise(body) if isinstance(body, list) else ():
        if isinstance(statement, ast.Assign | ast.AnnAssign) and isinstance(following, ast.Expr):
            value = following.value
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield following.lineno, value.value.strip()


def test_there_are_files() -> None:
    assert len(PYTHON) > 300


def test_private_words_are_found() -> None:
    for text in ("What became of the run", "put back", "It voids the rate", "a run that was cut off", "lays it over"):
        assert WORD.search(text), text
    assert not WORD.search("The run was interrupted; hosts are restored.")


def test_no_file_uses_a_private_word() -> None:
    offenders = [
        f"{file.relative_to(ROOT)}:{number}: {found[0]!r}"
        for file in FILES
        if file != Path(__file__)
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if (found := WORD.search(STORED_NAMES.sub("", line)))
    ]
    assert offenders == []


def test_headless_clauses_are_found() -> None:
    for text in (
        "What a module documents.",
        "Whether it runs.",
        "State of a host. Whether it is tuned.",
        "Read it.\n\nWhat the figures mean, read from its source:\n- one",
    ):
        assert HEADLESS.match(text), text
    for text in ("Return whether it runs.", "Rows of a tool.\n\nWhat they mean is with the tool: `rows`."):
        assert not HEADLESS.match(text), text


@pytest.mark.parametrize("folder", ["benchkit", "tests"])
def test_docstrings_are_no_headless_clauses(folder: str) -> None:
    offenders = [
        f"{file.relative_to(ROOT)}:{line}: {text.splitlines()[0]}"
        for file in PYTHON
        if file.is_relative_to(ROOT / folder)
        for line, text in _read(file).texts
        if HEADLESS.match(text)
    ]
    assert offenders == []


def test_classes_have_standard_names() -> None:
    offenders = [
        f"{file.relative_to(ROOT)}:{line}: {name}"
        for file in PYTHON
        for line, name in _read(file).classes
        if name in NAMES
    ]
    assert offenders == []
