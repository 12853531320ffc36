"""A report in the browser of its readers: it asks for nothing, complains of nothing, can be sorted and read aloud."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from benchkit.report.report_files import write_report
from benchkit.report.run_reader import read_run
from benchkit.report.stored_run import StoredRun
from benchkit.results.store import Store
from tests.report.conftest import watched

if TYPE_CHECKING:
    from tests.browser import Browser

pytestmark = [pytest.mark.system, pytest.mark.skipif(shutil.which("npm") is None, reason="axe-core comes by npm")]

HERE = Path(__file__).parent
COMPLAINTS = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")
WCAG_AA = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
RECORDED = Path(__file__).parents[2] / "notebooks" / "recorded"
SHOWN = ("nginx-vs-go", "scheduler-overhead")
DESKTOP, PHONE = (1280, 900), (390, 844)


@pytest.fixture(scope="session")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The script of axe-core, at the version that the lock file pins."""
    folder = tmp_path_factory.mktemp("axe")
    for name in ("package.json", "package-lock.json"):
        shutil.copy(HERE / "axe" / name, folder)
    subprocess.run(["npm", "ci", "--ignore-scripts", "--prefix", str(folder)], check=True, capture_output=True)
    return (folder / "node_modules/axe-core/axe.min.js").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def report(make_run: Callable[..., StoredRun], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of two runs, the first with enough trials for tables to have their tools."""
    run = watched(make_run({"stack": ["go", "nginx-go"], "connections": [16, 256]}))
    return write_report(run, tmp_path_factory.mktemp("report"), make_run(seed=8))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of runs that were carried out: with claims, profiles, verdicts and hosts of their own."""
    store = Store(RECORDED)
    views = [read_run(store, run) for run in store.runs() if run.manifest().scenario["name"] in SHOWN]
    assert len(views) == len(SHOWN)
    return write_report(views[0], tmp_path_factory.mktemp("recorded"), *views[1:])


def show(browser: Browser, page: Path, size: tuple[int, int] = DESKTOP, scheme: str = "light") -> Browser:
    """The page in a window of that size, in light or dark."""
    browser.open(page)
    width, height = size
    browser.call(
        "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=size == PHONE
    )
    browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    return browser


def violations(browser: Browser, axe: str) -> list[dict[str, Any]]:
    """What axe-core has against the page that is open."""
    # The page's own policy runs no script but its own; the debugger's may.
    browser.run(f"{axe}; undefined")
    options = {"runOnly": {"type": "tag", "values": [*WCAG_AA, "best-practice"]}}
    found: list[dict[str, Any]] = browser.run(
        f"axe.run(document, {options!r}).then((done) => done.violations.map("
        "({ id, help, nodes }) => ({ id, help, where: nodes.slice(0, 3).map((node) => node.html) })))"
    )
    return found


def test_it_complains_of_nothing_and_asks_for_nothing(browser: Browser, report: Path) -> None:
    show(browser, report)
    assert browser.happened(*COMPLAINTS) == []
    asked = [event["params"]["request"]["url"] for event in browser.happened("Network.requestWillBeSent")]
    assert [url for url in asked if not url.startswith("data:")] == [report.as_uri()]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_everybody_can_read_it(browser: Browser, report: Path, axe: str, size: tuple[int, int], scheme: str) -> None:
    assert violations(show(browser, report, size, scheme), axe) == []


def test_everybody_can_read_what_was_measured(browser: Browser, recorded: Path, axe: str) -> None:
    show(browser, recorded)
    sections = browser.run("Array.from(document.querySelectorAll('section'), (section) => section.id)")
    assert {name.rpartition("-")[2] for name in sections} >= {"claims", "verdicts", "profiles", "hosts"}
    browser.run("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    assert violations(browser, axe) == []
    show(browser, recorded, PHONE, "dark")
    assert browser.run("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    assert browser.happened(*COMPLAINTS) == []
    asked = [event["params"]["request"]["url"] for event in browser.happened("Network.requestWillBeSent")]
    assert {url for url in asked if not url.startswith("data:")} == {recorded.as_uri()}


def test_the_check_finds_what_is_wrong(browser: Browser, report: Path, axe: str, tmp_path: Path) -> None:
    page = tmp_path / "wrong.html"
    page.write_text(report.read_text(encoding="utf-8").replace('<html lang="en"', "<html"), encoding="utf-8")
    assert "html-has-lang" in [found["id"] for found in violations(show(browser, page), axe)]


def test_nothing_reaches_beyond_a_narrow_screen(browser: Browser, report: Path) -> None:
    show(browser, report, PHONE)
    assert browser.run("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


def test_a_click_sorts_a_table_and_another_turns_it(browser: Browser, report: Path) -> None:
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
