"""The files of a script: itself, what it imports and opens, and the messages for those that cannot be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchkit.errors import InputError
from benchkit.scenario.cells import read_script
from tests.support.builders import load, read_scenario

SCRIPT = """\
import http from 'k6/http';
import { check } from "k6";
import papa from 'https://jslib.k6.io/papaparse/5.1.1/index.js';
import { cart } from './lib/cart.js';
// import gone from './gone.js';
/* open('./gone.json') */
const users = JSON.parse(open('users.json'));
const each = open(`./${__ENV.NAME}.json`);
export default function () { http.get(`${__ENV.BENCHKIT_URL}/`); }
"""


def write(folder: Path, **files: str) -> Path:
    (folder / "lib").mkdir()
    for name, text in {"shop.js": SCRIPT, "lib/cart.js": "export * from '../more.ts';", **files}.items():
        (folder / name).write_text(text)
    return folder / "shop.js"


def test_a_script_brings_what_it_imports_and_opens(tmp_path: Path) -> None:
    script = write(tmp_path, **{"more.ts": "", "users.json": "[1]", "unused.js": ""})
    assert read_script(script).keys() == {"shop.js", "lib/cart.js", "more.ts", "users.json"}


def test_the_load_of_a_cell_has_them(tmp_path: Path) -> None:
    write(tmp_path, **{"more.ts": "", "users.json": "[1]"})
    (cell,) = read_scenario(tmp_path, load=load(tool="k6", script="shop.js")).cells
    assert cell.load.script_files["users.json"] == b"[1]"
    assert cell.load.revealed.script_files == cell.load.script_files


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"users.json": ""}, "load.script: cannot read {folder}/more.ts: No such file or directory"),
        ({"more.ts": ""}, "load.script: cannot read {folder}/users.json: No such file or directory"),
        (
            {"more.ts": "", "users.json": "", "lib/cart.js": "import '../../b.js'"},
            "load.script: lib/cart.js reads ../../b.js, outside of the script's folder: move it there",
        ),
    ],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, files: dict[str, str], message: str) -> None:
    write(tmp_path, **files)
    with pytest.raises(InputError) as error:
        read_scenario(tmp_path, load=load(tool="k6", script="shop.js"))
    assert message.format(folder=tmp_path) in str(error.value)
