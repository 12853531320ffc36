"""Reports in a browser: no requests, no messages, sorting, accessibility."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from benchkit.report.report_files import write_report
from benchkit.report.stored_run import StoredRun, read_run
from benchkit.store.store import Store
from tests.support.paths import ROOT
from tests.support.report.fixtures import watched

if TYPE_CHECKING:
    from tests.support.browser import Browser

pytestmark = [pytest.mark.skipif(shutil.which("npm") is None, reason="axe-core comes by npm")]

HERE = Path(__file__).parent
MESSAGES = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")
WCAG_AA = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
RECORDED = ROOT / "notebooks" / "recorded"
SHOWN = "scheduler-overhead"
DESKTOP, PHONE = (1280, 900), (390, 844)


@pytest.fixture(scope="session")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Script of axe-core, at the version that the lock file pins."""
    folder = tmp_path_factory.mktemp("axe")
    for name in ("package.json", "package-lock.json"):
        shutil.copy(HERE / "axe" / name, folder)
    subprocess.run(["npm", "ci", "--ignore-scripts", "--prefix", str(folder)], check=True, capture_output=True)
    return (folder / "node_modules/axe-core/axe.min.js").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def report(make_run: Callable[..., StoredRun], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Report of a run with enough trials for filters on tables."""
    run = watched(make_run({"stack": ["go", "nginx-go"], "connections": [16, 256]}))
    return write_report(run, tmp_path_factory.mktemp("report"))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Report of a recorded run, with claims, profiles, verdicts and hosts."""
    store = Store(RECORDED)
    (run,) = [run for run in store.runs() if run.manifest().scenario_name == SHOWN]
    return write_report(read_run(store, run), tmp_path_factory.mktemp("recorded"))


def show(browser: Browser, page: Path, size: tuple[int, int] = DESKTOP, scheme: str = "light") -> Browser:
    """Open the page in a window of that size, in light or dark."""
    browser.open(page)
    width, height = size
    browser.call(
        "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=size == PHONE
    )
    browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    return browser


def violations(browser: Browser, axe: str) -> list[dict[str, Any]]:
    """Return what axe-core finds in the open page."""
    # The page's policy admits only its own script; the debugger is exempt.
    browser.run(f"{axe}; undefined")
    options = {"runOnly": {"type": "tag", "values": [*WCAG_AA, "best-practice"]}}
    found: list[dict[str, Any]] = browser.run(
        f"axe.run(document, {options!r}).then((done) => done.violations.map("
        "({ id, help, nodes }) => ({ id, help, where: nodes.slice(0, 3).map((node) => node.html) })))"
    )
    return found


def test_the_page_logs_nothing_and_requests_nothing(browser: Browser, report: Path) -> None:
    show(browser, report)
    assert browser.happened(*MESSAGES) == []
    requested = [event["params"]["request"]["url"] for event in browser.happened("Network.requestWillBeSent")]
    assert [url for url in requested if not url.startswith("data:")] == [report.as_uri()]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_the_page_is_accessible(browser: Browser, report: Path, axe: str, size: tuple[int, int], scheme: str) -> None:
    assert violations(show(browser, report, size, scheme), axe) == []


def test_the_page_of_recorded_runs_is_accessible(browser: Browser, recorded: Path, axe: str) -> None:
    show(browser, recorded)
    sections = browser.run("Array.from(document.querySelectorAll('section'), (section) => section.id)")
    assert set(sections) >= {"claims", "validity", "services", "reproduce"}
    browser.run("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    assert violations(browser, axe) == []
    show(browser, recorded, PHONE, "dark")
    assert browser.run("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    assert browser.happened(*MESSAGES) == []
    requested = [event["params"]["request"]["url"] for event in browser.happened("Network.requestWillBeSent")]
    assert {url for url in requested if not url.startswith("data:")} == {recorded.as_uri()}


def test_clicks_sort_a_table_in_both_directions(browser: Browser, report: Path) -> None:
    show(browser, report)
    column = "Array.from(document.querySelectorAll('#table-trials thead tr:last-child > *')).findIndex((head) => head.textContent.startsWith('RPS'))"
    read = (
        f"(() => {{ const at = {column}; return Array.from(document.querySelectorAll('#table-trials tbody tr'), "
        "(row) => Number(row.cells[at].dataset.v ?? row.cells[at].textContent.replaceAll(',', ''))); })()"
    )
    click = (
        f"document.querySelectorAll('#table-trials thead tr:last-child > *')[{column}].querySelector('button').click()"
    )
    before = browser.run(read)
    assert before != sorted(before)
    browser.run(click)
    assert browser.run(read) == sorted(before)
    browser.run(click)
    assert browser.run(read) == sorted(before, reverse=True)
