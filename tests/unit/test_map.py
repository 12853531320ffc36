"""Pages for the next people: the map of the code in benchkit/README.md, and the recipes in CONTRIBUTING.md."""

from __future__ import annotations

import itertools
import re
import textwrap
import tomllib

from tests.support.paths import ROOT

PAGE = (ROOT / "benchkit" / "README.md").read_text(encoding="utf-8")
FOLDERS = [
    name for line in re.findall(r"^\| `(.*?)\|", PAGE, re.MULTILINE) for name in re.findall(r"([\w.]+)/?`", line)
]


def test_the_map_names_every_folder_and_module() -> None:
    package = ROOT / "benchkit"
    folders = {
        path.name for path in package.iterdir() if path.is_dir() and path.name not in ("__pycache__", "_shipped")
    }
    modules = {path.name for path in package.glob("*.py") if path.name != "__init__.py"}
    assert set(FOLDERS) == folders | modules
    assert len(FOLDERS) == len(set(FOLDERS))


def test_the_map_has_the_order_of_the_layers() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = [re.split(r" [|:] ", layer) for layer in reversed(contracts[0]["layers"])]
    order = [name.removesuffix(".py") for name in FOLDERS]
    for lower, upper in itertools.pairwise(layers):
        assert max(map(order.index, lower)) < min(map(order.index, upper)), (lower, upper)


def test_the_spine_is_that_of_the_file_to_read_first() -> None:
    _picture, spine = re.findall(r"^```\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    assert textwrap.indent(spine, "    ") in (ROOT / "benchkit" / "run" / "run.py").read_text(encoding="utf-8")


def test_the_recipes_name_files_that_exist() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert len(page.splitlines()) <= 60
    links = [link.partition("#")[0] for link in re.findall(r"\]\(([^)]+)\)", page)]
    named = re.findall(r"`((?:benchkit|tests)/[^`<]+)`", page)
    assert len(named) > 10
    assert [name for name in (*links, *named) if not (ROOT / name).exists()] == []
