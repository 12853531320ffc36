"""Pages: the map of the code in benchkit/README.md, the recipes in CONTRIBUTING.md, and the links of all pages."""

from __future__ import annotations

import itertools
import re
import textwrap
import tomllib
from collections.abc import Iterator

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


def _links() -> Iterator[tuple[str, str]]:
    """Yield the relative links of all pages, with their page."""
    pages = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
    for folder in ("benchkit", "scenarios", "configs", "notebooks", "tests"):
        pages += (ROOT / folder).rglob("*.md")
    for page in pages:
        text = re.sub(r"^```.*?^```$|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
        for link in re.findall(r"\]\(([^)\s#]+)(?:#[^)]*)?\)", text):
            if "://" not in link and not link.startswith("mailto:"):
                yield str(page.relative_to(ROOT)), link


def test_every_relative_link_leads_to_a_file() -> None:
    links = list(_links())
    assert len(links) > 30
    assert [(page, link) for page, link in links if not ((ROOT / page).parent / link).exists()] == []


def test_the_recipes_name_files_that_exist() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = re.findall(r"`((?:benchkit|tests)/[^`<]+)`", page)
    assert len(named) > 5
    assert [name for name in named if not (ROOT / name).exists()] == []
