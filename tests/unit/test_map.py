"""The map of the code in benchkit/README.md names every folder, each with those that it may import above it."""

from __future__ import annotations

import itertools
import re
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
