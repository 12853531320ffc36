"""The rules of the house, held by a test: who may import whom, who knows what, and what stands in no file."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "benchkit"

FLOORS: tuple[frozenset[str], ...] = (
    frozenset({"errors", "units", "models", "document", "resources"}),
    frozenset({"agent"}),
    frozenset({"hosts"}),
    frozenset({"services"}),
    frozenset({"load", "profiles"}),
    frozenset({"scenario"}),
    frozenset({"results"}),
    frozenset({"analysis"}),
    frozenset({"report", "lab"}),
    frozenset({"run"}),
    frozenset({"explore"}),
    frozenset({"cli"}),
)
"""From the ground up. A part of the package imports from itself and from the floors below; on the ground floor, from all."""

LEVEL = {part: level for level, floor in enumerate(FLOORS) for part in floor}

APART = frozenset({"backends", "_shipped"})
"""What is no Python of the package."""

LIVE = ("hosts", "services", "load", "profiles", "scenario")
OFFLINE = {"results": ("scenario",), "analysis": LIVE, "report": LIVE}
"""Every stored run can be judged and drawn again offline: these read what `models` describes, and reach no host."""

OWNED = {"fabric": "hosts/ssh.py", "paramiko": "hosts/ssh.py", "invoke": "hosts/ssh.py", "matplotlib": "report/"}
LAYOUT = re.compile(r"manifest\.json|journal\.jsonl|(scenario|run_id)=")
LAYOUT_OWNER = "results/store.py"

LINUX = frozenset({"lab", "agent"})
LINUX_MODULES = frozenset({"hosts/cpu_affinity.py"})
"""Does nothing on other systems: there the controller is no host."""
LINUX_NAMES = re.compile(
    r"sched_\w+|setns|unshare|pidfd_\w+|memfd_create|eventfd\w*|timerfd\w*|epoll|EPOLL\w+|fdatasync|splice|prlimit"
    r"|getrandom|[gs]etxattr|sethostname|posix_fadvise|O_TMPFILE|O_DIRECT|O_PATH|AF_NETLINK|AF_PACKET|SO_PEERCRED|TCP_INFO"
)
"""What Python's os, socket, select, signal and resource have on Linux and not on macOS."""
LINUX_STRINGS = re.compile(r"/(proc|sys)(/|$)|libc\.so")

SLOW = ("pandas", "pyarrow", "matplotlib", "fabric", "paramiko", "numpy", "scipy", "jinja2", "google")

REGISTRIES = re.compile(
    r"\b(?:(?:pypi|pythonhosted|npmjs|yarnpkg|npmmirror|goproxy)\.(?:org|com|io|cn)"
    r"|(?:proxy|sum)\.golang\.org|(?:deb|security|snapshot)\.debian\.org|archive\.ubuntu\.com)\b"
)
LOCAL_PATHS = re.compile(r"(?<![\w.$:/-])/(?:home|Users|work)/[\w.-]+/")


class Module:
    """A Python file of the package."""

    def __init__(self, path: Path) -> None:
        self.name = PurePosixPath(path.relative_to(PACKAGE))
        self.text = path.read_text(encoding="utf-8")

    def __repr__(self) -> str:
        return str(self.name)

    @property
    def part(self) -> str:
        """The folder of the package, or the module at its top, to which the file belongs."""
        return self.name.parts[0].removesuffix(".py")

    @cached_property
    def nodes(self) -> list[ast.AST]:
        return list(ast.walk(ast.parse(self.text, str(self.name))))

    def imports(self) -> Iterator[tuple[int, str]]:
        """Line and full name of all that is imported, wherever in the file."""
        package = ("benchkit", *self.name.parts[:-1])
        for node in self.nodes:
            if isinstance(node, ast.Import):
                yield from ((node.lineno, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                above = package[: len(package) + 1 - node.level] if node.level else ()
                source = [*above, *([node.module] if node.module else [])]
                yield from ((node.lineno, ".".join([*source, alias.name])) for alias in node.names)

    def parts_imported(self) -> Iterator[tuple[int, str]]:
        """Line and name of the other parts of the package that it imports from."""
        for line, name in self.imports():
            package, part, *_ = (*name.split("."), "")
            inside = (PACKAGE / part).is_dir() or (PACKAGE / f"{part}.py").is_file()
            if package == "benchkit" and part and inside and part != self.part:
                yield line, part

    def strings(self) -> Iterator[tuple[int, str]]:
        """Line and value of every string that is no docstring."""
        alone = {id(node.value) for node in self.nodes if isinstance(node, ast.Expr)}
        for node in self.nodes:
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in alone:
                yield node.lineno, node.value

    def names(self) -> Iterator[tuple[int, str]]:
        """Line and name of every attribute."""
        yield from ((node.lineno, node.attr) for node in self.nodes if isinstance(node, ast.Attribute))


MODULES = [Module(path) for path in sorted(PACKAGE.rglob("*.py")) if path.relative_to(PACKAGE).parts[0] != "_shipped"]
HOUSE = [module for module in MODULES if module.part not in {*APART, "__init__"}]


def test_there_is_a_house() -> None:
    assert len(HOUSE) > 20


def test_every_part_has_its_floor() -> None:
    parts = {module.part for module in HOUSE}
    assert parts <= LEVEL.keys(), "a new part of the package belongs into FLOORS"


def test_imports_go_downward_only() -> None:
    upward = [
        f"{module}:{line}: {module.part} imports {other}"
        for module in HOUSE
        for line, other in module.parts_imported()
        if not (LEVEL.get(other, len(FLOORS)) < LEVEL[module.part] or LEVEL.get(other) == LEVEL[module.part] == 0)
    ]
    assert upward == []


def test_analysis_and_report_never_reach_a_host() -> None:
    reaching = [
        f"{module}:{line}: imports {other}"
        for module in HOUSE
        for line, other in module.parts_imported()
        if other in OFFLINE.get(module.part, ())
    ]
    assert reaching == []


def test_libraries_with_one_owner_are_imported_by_it_alone() -> None:
    strangers = [
        f"{module}:{line}: imports {name}"
        for module in MODULES
        for line, name in module.imports()
        if not str(module.name).startswith(OWNED.get(name.partition(".")[0], ""))
    ]
    assert strangers == []


def test_the_agent_needs_nothing_but_python() -> None:
    needed = [
        f"{module}:{line}: imports {name}"
        for module in MODULES
        if module.part == "agent"
        for line, name in module.imports()
        if not name.startswith("benchkit.agent.") and name.partition(".")[0] not in {*sys.stdlib_module_names, "psutil"}
    ]
    assert needed == [], "it runs where there is no benchkit; psutil it may use where there is one"


def test_only_the_store_knows_its_layout() -> None:
    knowing = [
        f"{module}:{line}: {text!r}"
        for module in HOUSE
        for line, text in module.strings()
        if LAYOUT.search(text) and str(module.name) != LAYOUT_OWNER
    ]
    assert knowing == []


def test_the_controller_runs_on_macos_too() -> None:
    linux_only = [
        f"{module}:{line}: {what}"
        for module in MODULES
        if module.part not in LINUX and str(module.name) not in LINUX_MODULES
        for line, what in (
            *((line, name) for line, name in module.imports() if name.partition(".")[0] == "resource"),
            *((line, name) for line, name in module.imports() if LINUX_NAMES.fullmatch(name.rpartition(".")[2])),
            *((line, name) for line, name in module.names() if LINUX_NAMES.fullmatch(name)),
            *((line, text) for line, text in module.strings() if LINUX_STRINGS.match(text)),
        )
    ]
    assert linux_only == []


def test_the_command_line_starts_without_what_is_slow() -> None:
    program = f"import sys, benchkit.cli.app; print(*sorted(set({SLOW!r}) & sys.modules.keys()))"
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert shown.stdout.split() == []


def _tracked() -> list[Path]:
    """The files of the repository, those not yet added to it among them."""
    command = ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    files = [ROOT / name for name in listed.split("\0") if name]
    return [file for file in files if file.is_file() and not file.is_symlink()]


@pytest.mark.parametrize(
    "pattern", [pytest.param(REGISTRIES, id="a package registry"), pytest.param(LOCAL_PATHS, id="folders of one's own")]
)
def test_no_file_names(pattern: re.Pattern[str]) -> None:
    files = _tracked()
    assert len(files) > 20
    naming = [
        f"{file.relative_to(ROOT)}:{number}: {found[0]}"
        for file in files
        if file != Path(__file__)  # it has to name them
        for number, line in enumerate(file.read_text(encoding="utf-8", errors="replace").splitlines(), 1)
        if (found := pattern.search(line))
    ]
    assert naming == []
