"""Text of others on the terminal: no control sequence of it arrives, whatever prints it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from benchkit.store.store import Store
from tests.support.cli.fixtures import Cli
from tests.support.report.fixtures import keep, synthetic_run

HOSTILE = "a\x1b[2J\x9b31m\u202eb\x7f"
UNSAFE = ("\x1b", "\x9b", "\u202e", "\x7f")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A store with a run that has control sequences wherever its manifest allows any text."""
    store = keep(synthetic_run(scenario={"title": HOSTILE, "question": HOSTILE}), tmp_path / "store")
    path = store.run("latest").manifest_file
    document = json.loads(path.read_bytes())
    document |= {"scale": HOSTILE, "notes": [HOSTILE], "settings": [HOSTILE], "source": HOSTILE}
    document["tags"] = {"version": HOSTILE.replace("\x1b", "").replace("\x7f", "")}
    document["versions"] = {HOSTILE: HOSTILE}
    document["hosts"][0]["name"] = HOSTILE
    document["code"] = {"commit": HOSTILE, "subject": HOSTILE}
    path.write_text(json.dumps(document))
    return store


@pytest.mark.parametrize(
    "arguments",
    [
        ("compare", "latest"),
        ("results", "list"),
        ("results", "trials", "latest"),
        ("results", "check"),
        ("history", "synthetic"),
    ],
)
def test_no_text_of_a_store_controls_the_terminal(cli: Cli, store: Store, arguments: tuple[str, ...]) -> None:
    result = cli(*arguments, "--store", str(store.path))
    assert result.out
    assert not any(character in result.out + result.err for character in UNSAFE)


@pytest.mark.parametrize(
    "variables",
    [{"PYTHONIOENCODING": "latin1"}, {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}],
    ids=["latin1", "C"],
)
def test_characters_that_an_encoding_lacks_are_escaped(
    program: list[str], environment: dict[str, str], variables: dict[str, str]
) -> None:
    done = subprocess.run([*program, "nope"], env=environment | variables, capture_output=True, check=False)
    assert (done.returncode, b"Traceback" in done.stderr) == (2, False)
    assert rb"\u2192 `benchkit --help` shows the usage" in done.stderr


def test_json_keeps_such_text_escaped(cli: Cli, store: Store) -> None:
    result = cli("results", "list", "--store", str(store.path), "--json")
    assert not any(character in result.out for character in UNSAFE)
    assert result.document()[0]["scale"] == HOSTILE
