"""Rules of the source tree: who may import whom, who knows what, and what no file may name."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import cached_property
from graphlib import TopologicalSorter
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import pytest

from tests.support.paths import ROOT

PACKAGE = ROOT / "benchkit"

LAYOUT = re.compile(r"manifest\.json|journal\.jsonl|(scenario|run_id)=")
LAYOUT_OWNERS = {"store/store.py", "store/run_folder.py", "store/layout.py"}

LINUX = frozenset({"lab", "agent"})
LINUX_MODULES = frozenset({"hosts/cpu_affinity.py", "cli/address_space.py"})
"""Modules that do nothing on other systems, or the same on macOS."""
LINUX_NAMES = re.compile(
    r"sched_\w+|setns|unshare|pidfd_\w+|memfd_create|eventfd\w*|timerfd\w*|epoll|EPOLL\w+|fdatasync|splice|prlimit"
    r"|getrandom|[gs]etxattr|sethostname|posix_fadvise|O_TMPFILE|O_DIRECT|O_PATH|AF_NETLINK|AF_PACKET|SO_PEERCRED|TCP_INFO"
)
"""Names of os, socket, select, signal and resource that exist on Linux and not on macOS."""
LINUX_STRINGS = re.compile(r"/(proc|sys)(/|$)|libc\.so")

SLOW = (
    "pandas",
    "pyarrow",
    "matplotlib",
    "fabric",
    "paramiko",
    "numpy",
    "scipy",
    "jinja2",
    "google",
    "fsspec",
    "dask",
    "duckdb",
)

REGISTRIES = re.compile(
    r"\b(?:(?:pypi|pythonhosted|npmjs|yarnpkg|npmmirror|goproxy)\.(?:org|com|io|cn)"
    r"|(?:proxy|sum)\.golang\.org|(?:deb|security|snapshot)\.debian\.org|archive\.ubuntu\.com)\b"
)
LOCAL_PATHS = re.compile(r"(?<![\w.$:/-])/(?:home|Users|work)/[\w.-]+/")


class Content(NamedTuple):
    """Parts of a module, each with its line."""

    imports: list[tuple[int, str]]
    """Full names, also of imports inside functions."""
    strings: list[tuple[int, str]]
    """All but docstrings."""
    attributes: list[tuple[int, str]]
    classes: list[tuple[int, str]]


class Module:
    """Python file of the package."""

    def __init__(self, path: Path) -> None:
        self.name = PurePosixPath(path.relative_to(PACKAGE))
        self.text = path.read_text(encoding="utf-8")

    def __repr__(self) -> str:
        return str(self.name)

    @property
    def room(self) -> str:
        """Subpackage, or module at the top of the package, to which the file belongs."""
        return self.name.parts[0].removesuffix(".py")

    @cached_property
    def content(self) -> Content:
        """Its imports, strings, attributes and classes. The tree is not kept: together they are a million objects."""
        found = Content([], [], [], [])
        docstrings = set()
        package = ("benchkit", *self.name.parts[:-1])
        for node in ast.walk(ast.parse(self.text, str(self.name))):  # a docstring comes after its statement
            match node:
                case ast.Import():
                    found.imports.extend((node.lineno, alias.name) for alias in node.names)
                case ast.ImportFrom():
                    parents = package[: len(package) + 1 - node.level] if node.level else ()
                    source = [*parents, *([node.module] if node.module else [])]
                    found.imports.extend((node.lineno, ".".join([*source, alias.name])) for alias in node.names)
                case ast.Expr():
                    docstrings.add(node.value)
                case ast.Constant(value=str(text)) if node not in docstrings:
                    found.strings.append((node.lineno, text))
                case ast.Attribute():
                    found.attributes.append((node.lineno, node.attr))
                case ast.ClassDef():
                    found.classes.append((node.lineno, node.name))
        return found


MODULES = [Module(path) for path in sorted(PACKAGE.rglob("*.py")) if path.relative_to(PACKAGE).parts[0] != "_shipped"]


def test_imports_keep_the_contracts_of_pyproject() -> None:
    """Run import-linter in a process of its own: it disables all loggers that exist there."""
    lint_imports = Path(sys.executable).with_name("lint-imports")
    linted = subprocess.run([lint_imports, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert linted.returncode == 0, linted.stdout + linted.stderr


def test_modules_import_each_other_in_no_circle() -> None:
    """Include imports within functions, and those for types alone."""
    names = {".".join(("benchkit", *module.name.with_suffix("").parts)): module for module in MODULES}

    def imported(module: Module) -> set[str]:
        full = {name for _, name in module.content.imports}
        return (full | {name.rpartition(".")[0] for name in full}) & names.keys()

    uses = {name: imported(module) for name, module in names.items()}
    assert sum(map(len, uses.values())) > 1000
    TopologicalSorter(uses).prepare()  # CycleError names a circle


def test_a_public_class_name_stands_once() -> None:
    places: dict[str, list[str]] = {}
    for module in MODULES:
        for line, name in module.content.classes:
            places.setdefault(name, []).append(f"{module}:{line}")
    assert len(places) > 500
    assert {name: at for name, at in places.items() if len(at) > 1 and not name.startswith("_")} == {}


def test_the_agent_imports_only_the_standard_library() -> None:
    foreign = [
        f"{module}:{line}: imports {name}"
        for module in MODULES
        if module.room == "agent"
        for line, name in module.content.imports
        if not name.startswith("benchkit.agent.") and name.partition(".")[0] not in sys.stdlib_module_names
    ]
    assert foreign == [], "hosts have Python and no other package"


def test_only_the_store_knows_its_layout() -> None:
    offenders = [
        f"{module}:{line}: {text!r}"
        for module in MODULES
        for line, text in module.content.strings
        if LAYOUT.search(text) and str(module.name) not in LAYOUT_OWNERS
    ]
    assert offenders == []


def test_the_controller_runs_on_macos_too() -> None:
    linux_only = [
        f"{module}:{line}: {what}"
        for module in MODULES
        if module.room not in LINUX and str(module.name) not in LINUX_MODULES
        for line, what in (
            *((line, name) for line, name in module.content.imports if name.partition(".")[0] == "resource"),
            *((line, name) for line, name in module.content.imports if LINUX_NAMES.fullmatch(name.rpartition(".")[2])),
            *((line, name) for line, name in module.content.attributes if LINUX_NAMES.fullmatch(name)),
            *((line, text) for line, text in module.content.strings if LINUX_STRINGS.match(text)),
        )
    ]
    assert linux_only == []


def test_the_command_line_starts_without_slow_imports() -> None:
    program = f"import sys, benchkit.cli.app; print(*sorted(set({SLOW!r}) & sys.modules.keys()))"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.split() == []


def _repository_files() -> list[Path]:
    """Return the files of the repository, including new ones that git does not ignore."""
    command = ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    files = [ROOT / name for name in listed.split("\0") if name]
    return [file for file in files if file.is_file() and not file.is_symlink()]


@pytest.mark.parametrize(
    "pattern", [pytest.param(REGISTRIES, id="package-registry"), pytest.param(LOCAL_PATHS, id="home-folder")]
)
def test_no_file_contains(pattern: re.Pattern[str]) -> None:
    files = _repository_files()
    assert len(files) > 20
    offenders = [
        f"{file.relative_to(ROOT)}:{number}: {found[0]}"
        for file in files
        if file != Path(__file__)  # has the patterns themselves
        for number, line in enumerate(file.read_text(encoding="utf-8", errors="replace").splitlines(), 1)
        if (found := pattern.search(line))
    ]
    assert offenders == []
