"""Pages of the studies: they are what the recorded runs say, and every study has its parts."""

from __future__ import annotations

import re

import pytest

from benchkit.comparison.claims import ClaimResult
from tests.support.studies.pages import BEGIN, OWN, RESULTS_PAGE, draw, page, summary_table
from tests.support.studies.study import FOLDER, RecordedStudy, read_studies

STUDIES = read_studies()
SOURCES = FOLDER / "SOURCES.md"


@pytest.mark.parametrize("recorded", STUDIES.values(), ids=STUDIES)
def test_a_page_is_that_of_the_recorded_runs_with_a_summary_in_chinese(recorded: RecordedStudy) -> None:
    written = (FOLDER / f"{recorded.name}.md").read_text(encoding="utf-8")
    assert written == page(recorded) + "\n", "`make studies` writes it again"
    assert not set(written) & set('"“”「」'), "sentences of authors are paraphrased"
    assert len(re.findall(r"[.] [A-Z]", recorded.filled(recorded.study.answer))) < 2, (
        "an answer has two sentences at most"
    )
    assert "## 摘要" in written


def test_the_results_open_with_a_line_for_each_source() -> None:
    text = RESULTS_PAGE.read_text(encoding="utf-8")
    table = summary_table(list(STUDIES.values()))
    assert len(table.splitlines()) == 2 + 6
    assert text.startswith(f"# What the scenarios found\n\n{BEGIN}\n{table}\n")


def test_the_page_of_2013_names_its_impossible_latencies() -> None:
    found = list(STUDIES["nginx-vs-go"].impossible())
    assert len(found) == 2
    assert "74,443 requests/s with a mean of 337 ms are 25,087 requests in flight on 5,000 connections" in found[0]
    assert "30,325 requests/s" in found[1]


def test_every_sentence_of_an_author_is_one_of_the_sources() -> None:
    listed = {
        tuple(cell.strip() for cell in line.split("|")[1:4])
        for line in SOURCES.read_text(encoding="utf-8").splitlines()
        if line.startswith("| ")
    }
    shown = {(name, each.says, each.kind) for name, recorded in STUDIES.items() for each in recorded.study.sentences}
    assert shown == listed - {("source", "sentence", "kind")}


@pytest.mark.parametrize("recorded", STUDIES.values(), ids=STUDIES)
def test_every_study_has_a_figure_of_its_answer(recorded: RecordedStudy) -> None:
    axes = draw(recorded).axes[0]
    assert len(axes.get_yticklabels()) >= 3
    assert (FOLDER / f"{recorded.name}.png").stat().st_size > 0


def test_every_recorded_scenario_is_on_one_page() -> None:
    named = [name for recorded in STUDIES.values() for name in recorded.study.scenarios]
    assert len(named) == len(set(named))
    stored = {run.manifest().scenario_name for run in STUDIES[OWN].store.runs()}
    assert stored <= set(named)


def state(study: str, beginning: str) -> ClaimResult:
    """Return the claim of a study that begins so."""
    return STUDIES[study].claims_named((beginning,))[-1]


def test_the_authors_sentences_are_decided_by_their_own_ratios() -> None:
    """Check what the recorded runs decide: the direction, and no figure."""
    study = "nethttp-vs-fasthttp"
    assert state(study, "fasthttp suits short connections better").state == "refuted"
    assert state(study, "the number of goroutines is nearly equal").state == "holds"
    assert state(study, "at the lowest rate, fasthttp takes at most 0.57").state == "refuted"
    (kept,) = state(study, "fasthttp is not twice as fast as net/http").ratios[-1:]
    assert kept.high is not None
    assert kept.high < 2
    assert state("static-files", "Go with a string serves at least as many").state == "refuted"


def test_results_that_no_claim_decides_are_those_of_the_tables() -> None:
    """Check what pages state beside claims: by components, and by rates times the CPU time per request."""
    run = STUDIES["nethttp-vs-fasthttp"].runs["scheduler-overhead"]
    rows = run.table("components")
    rows = rows[(rows["cell_id"] == "server=fasthttp,connections=200") & (rows["level"] == "category")]
    saved = rows.set_index("component")["difference"]
    assert 0 > saved["allocation"] + saved["gc"] > saved["all"] / 2
    rows = STUDIES["node-vs-go"].runs["node-vs-go"].table("components")
    modes = rows[rows["level"] == "mode"].set_index(["cell_id", "component"])["value"]
    cluster, single = (modes[f"stack={stack},work=none,keepalive=false,body=12"] for stack in ("node", "node-single"))
    assert cluster["user code"] - single["user code"] > cluster["kernel"] - single["kernel"] > 0
    trials = STUDIES["reuseport"].runs["reuseport"].measured
    cores = (trials["rps"] * trials["server_cpu_s_per_request"])[trials["cell_id"].str.endswith("connections=8000")]
    assert (cores > 0.33 * 0.95).all(), "nginx uses all of its CPU where the queue overflows"
