"""Fixtures and hooks of all tests: a lab for the whole session, and the order of test files."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from benchkit.lab.choice import remove_abandoned
from benchkit.lab.lab import Lab, down, up
from benchkit.lab.spec import LabSpec

# A busy machine is no failure.
settings.register_profile("benchkit", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("benchkit")

pytest_plugins = ("tests.browser",)

V8_LOGS = "isolate-*-v8.log"
"""Logs that node writes into its working directory with a map for perf."""
LONGEST = (
    "faults/test_faults.py",
    "cli/test_run.py",
    "notebooks/test_notebooks.py",
    "chaos/test_crash_points.py",
    "cli/go_modules/test_service.py",
    "cli/go_modules/test_runs.py",
    "studies/test_server_studies.py",
    "studies/test_nginx_studies.py",
    "cli/test_bisect.py",
    "cli/go_modules/test_failures.py",
    "studies/test_rates_on_lab.py",
    "agent/test_watchdog.py",
    "test_readme.py",
    "cli/test_ci.py",
    "backends/test_go_backends.py",
    "chaos/test_faults.py",
    "results/test_remote_store.py",
    "cli/test_design.py",
    "load/test_drive_tools.py",
    "cli/test_labs.py",
    "agent/test_telemetry.py",
    "cli/test_versus.py",
    "cli/test_service.py",
    "run/test_sliced_on_lab.py",
    "load/test_generators_on_lab.py",
    "test_wheel.py",
)
"""Files that take half a minute and more: they run first, so that no worker ends long after the others."""


MARKS_OF_FILE = re.compile(r"^pytestmark = (?:\[$.*?^\]|.*?$)", re.DOTALL | re.MULTILINE)
EXCLUSIONS = re.compile(r"not \w+(?: and not \w+)*")
"""Value of `-m` that excludes marks and selects none."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Ignore a file whose marks `-m` excludes: `make check` would import two fifths of the tests to deselect them."""
    excluded: str = config.getoption("markexpr")
    if collection_path.suffix != ".py" or not EXCLUSIONS.fullmatch(excluded):
        return None
    marks = MARKS_OF_FILE.search(collection_path.read_text(encoding="utf-8"))
    if marks is None:
        return None
    return True if set(re.findall(r"pytest\.mark\.(\w+)", marks[0])) & set(re.findall(r"not (\w+)", excluded)) else None


def pytest_sessionstart() -> None:
    """Let SIGINT raise KeyboardInterrupt, and lab hosts find this Python first.

    A shell that starts tests in the background has SIGINT ignored. On PATH `python3` may be a version manager's script,
    which takes twice as long as Python itself; lab hosts start one for every connection.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    folders = [str(Path(sys.executable).resolve().parent), os.environ.get("PATH", os.defpath)]
    os.environ["PATH"] = os.pathsep.join(folders)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest files first, in the same order for every worker."""
    rank = {Path(__file__).parent / name: i for i, name in enumerate(LONGEST)}
    items.sort(key=lambda item: rank.get(item.path, len(rank)))


@pytest.fixture(scope="session", autouse=True)
def clean_checkout() -> Iterator[None]:
    """Check that tests leave no log of V8 in the folder that they are started in, which is the checkout."""
    before = set(Path.cwd().glob(V8_LOGS))
    yield
    assert set(Path.cwd().glob(V8_LOGS)) <= before, (
        "node was started in the checkout: give it another working directory"
    )


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    """A lab of one `sut` and one `load` for the session; tests leave its hosts unchanged."""
    remove_abandoned()  # of killed sessions
    made = up(LabSpec(name=f"pytest-{os.getpid()}"), temporary=True)
    try:
        yield made
    finally:
        down(made.name)
