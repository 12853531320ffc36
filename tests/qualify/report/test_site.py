"""The site of a store: its pages, their links, and what is written again."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from bs4 import BeautifulSoup

from benchkit.errors import InputError
from benchkit.plugins.site.site import MIN_HISTORY, write_site
from benchkit.report.figures.history import alt, render_series
from benchkit.report.pages.report_files import write_run_report
from benchkit.run_history.series import history
from benchkit.store.store import Store
from tests.support.comparison.fixtures import STARTED, manifest_of, store_run, trials_of
from tests.support.report.sites import RATIOS, AddRun, links


def statuses(page: Path) -> dict[str, str]:
    rows = BeautifulSoup(page.read_text(), "html.parser").select("#table-runs tbody tr")
    return {row.select("th")[0].text: row.select("td")[3].text for row in rows}


def test_pages_link_to_each_other_and_to_the_reports_that_exist(store: Store, tmp_path: Path) -> None:
    write_run_report(store, store.run("r05"))
    for run_id, content in (("r06", "planted"), ("r07", (store.run("r05").report / "report.html").read_text())):
        planted = store.run(run_id).report / "report.html"
        planted.parent.mkdir()
        planted.write_text(content)
    calibration = (
        store.run("r00").manifest().model_copy(update={"run_id": "r99", "scenario": {"name": "a-calibration"}})
    )
    store.create(calibration)
    store.run("r08").finish("running")
    site = write_site(store, tmp_path / "site")
    assert (site.page, site.pages, site.written) == (tmp_path / "site" / "index.html", 3, 3)
    pages = {path.relative_to(tmp_path / "site") for path in (tmp_path / "site").rglob("*.html")}
    for page in pages - {Path("runs/r05.html")}:
        for link in links(tmp_path / "site" / page):
            if not link.startswith("#"):
                assert (tmp_path / "site" / page.parent / link).is_file(), f"{page}: {link}"
    assert {"scenarios/small.html", "runs/r05.html"} <= set(links(site.page))
    assert not {Path("runs/r06.html"), Path("runs/r07.html")} & pages, (
        "a site shows no page that is no report of its run"
    )
    shown = statuses(site.page)
    assert (shown["r07"], shown["r08"], "r99" in shown) == ("done", "stopped", False)
    scenario = (tmp_path / "site" / "scenarios" / "small.html").read_text()
    assert "shifts with run r08" in scenario
    assert "stack=&lt;new&gt; relative to stack=old" in scenario, "names are data"
    assert "<new>" not in scenario
    assert "shifts with run r08" in site.page.read_text()


def test_an_empty_store_has_no_site(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the store has no runs"):
        write_site(Store(tmp_path), tmp_path / "site")


@pytest.mark.parametrize("number", [1, MIN_HISTORY])
def test_a_scenario_of_which_no_trial_ended_has_a_page(tmp_path: Path, number: int) -> None:
    store = Store(tmp_path / "store")
    for i in range(number):
        store.create(manifest_of([{"stack": "old"}], run_id=f"r{i:02}", started_at=STARTED + timedelta(days=i)))
    write_site(store, tmp_path / "site")
    (page,) = (tmp_path / "site" / "scenarios").iterdir()
    scenario_page = BeautifulSoup(page.read_text(), "html.parser")
    assert "No trial of small has ended yet." in scenario_page.select("#history")[0].text


def test_only_pages_that_changed_are_written_again(store: Store, add_run: AddRun, tmp_path: Path) -> None:
    write_site(store, tmp_path / "site")
    before = {path: path.read_bytes() for path in (tmp_path / "site").rglob("*.html")}
    assert write_site(store, tmp_path / "site").written == 0
    assert {path: path.read_bytes() for path in (tmp_path / "site").rglob("*.html")} == before
    add_run(len(RATIOS), RATIOS[-1])
    assert write_site(store, tmp_path / "site").written == 2
    (tmp_path / "site" / "scenarios" / "small.html").unlink()
    assert write_site(store, tmp_path / "site").written == 1


def test_the_figure_of_a_series_names_its_runs_and_shifts(store: Store) -> None:
    found = history("small", store=store.path)
    (series,) = found.series
    drawn = render_series(found, series)
    assert drawn.png.startswith(b"\x89PNG")
    texts = drawn.svg.decode()
    assert "r08" in texts
    assert "r03: not used" in texts
    assert "hosts and settings 2" in texts
    assert "shifts with run r08" in alt(found, series)
    assert render_series(found, series) == drawn, "the same bytes every time"
    values = history("small", store=store.path, values=True)
    assert {series.scale for series in values.series} == {"lab"}
    assert all(render_series(values, each).svg for each in values.series)


def test_the_site_opens_with_questions_and_answers_and_scenarios_with_claims(tmp_path: Path) -> None:
    claim = {"text": "new is slower", "ratio": {"of": {"stack": "new"}, "to": {"stack": "old"}}, "at_most": 0.9}
    scenario = {"question": "Is the new one slower?", "claims": [claim]}
    generator = np.random.default_rng(5)
    for number in range(2):
        run_id = f"r{number:02}"
        manifest = manifest_of(
            [{"stack": "old"}, {"stack": "new"}],
            run_id=run_id,
            started_at=STARTED + timedelta(days=number),
            scenario=scenario,
        )
        noise = np.exp(0.01 * generator.standard_normal((2, 8)))
        rates = {"stack=old": 1000 * noise[0], "stack=new": 800 * noise[1]}
        store_run(tmp_path / "store", manifest, trials_of(rates, run_id=run_id, tool="wrk"))
    written = write_site(Store(tmp_path / "store"), tmp_path / "site")
    index = BeautifulSoup(written.page.read_text(), "html.parser")
    assert [section["id"] for section in index.select("section")] == ["scenarios", "figures", "runs"]
    first = index.select("#scenarios li")[0].text
    assert "Is the new one slower?" in first
    assert "serves 0.80 times the requests of old" in first
    assert "Claims: 1 holds." in first
    (page,) = (tmp_path / "site" / "scenarios").iterdir()
    scenario_page = BeautifulSoup(page.read_text(), "html.parser")
    assert [section["id"] for section in scenario_page.select("section")] == ["answer", "runs"]  # two runs: no history
    assert "new is slower: holds" in scenario_page.select("#answer")[0].text
    assert scenario_page.select("#answer svg")
