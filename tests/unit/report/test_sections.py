"""The tables of the sections of a report."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest
from matplotlib.text import Text

from benchkit import units
from benchkit.report.figures.rates import RATES
from benchkit.report.figures.registry import FIGURES
from benchkit.report.pages.page import page
from benchkit.report.rendering import render
from benchkit.report.sections.results import build_published
from benchkit.report.sections.section import ReportInput
from benchkit.report.sections.services import build_disk_usage, build_workers
from benchkit.report.sections.trials import build_trials
from benchkit.report.sections.validity import NOT_JUDGED, build_failures, build_verdicts
from benchkit.report.stored_run import StoredRun
from benchkit.report.summary import describe_cell, summarise
from benchkit.report.tables import ColumnGroup, Entry, Table, TableColumn, number
from benchkit.safe_text import clean, legible
from benchkit.store.journal import BlockInterrupted, JournalEvent, RunProgress, read_progress
from benchkit.store.parquet_files import empty_frame
from benchkit.units import ABSENT
from tests.support.report.reading import built, cells, records
from tests.support.report.variants import ids, judged, trial, with_profiles
from tests.unit.comparison.test_worker_balance import watched

if TYPE_CHECKING:
    from benchkit.report.stored_run import StoredRun


MakeRun = Callable[..., "StoredRun"]


"""Trial, check, severity, metrics."""


def test_a_run_without_verdicts_and_comparisons_has_no_section(make_run: MakeRun) -> None:
    alone = make_run({"stack": ["go"]})
    assert build_verdicts(ReportInput(alone, ())) is None
    assert "Validity of the results" not in page((alone, ()))


def test_comparisons_without_verdicts_have_a_note(run: StoredRun) -> None:
    shown = built(build_verdicts, run)
    assert (shown.summary, shown.matrix, shown.checks) == (NOT_JUDGED, None, 0)
    assert len(shown.noise) == 3


def test_a_valid_run_has_a_summary_and_no_tables(run: StoredRun) -> None:
    shown = built(build_verdicts, judged(run))
    assert shown.summary == "10 of 10 trials are valid."
    assert (shown.matrix, shown.reasons, shown.skipped_checks) == (None, None, None)


def test_findings_are_shown_by_cell_and_block_and_by_reason(run: StoredRun) -> None:
    go = ids(run, "stack=go")
    doubted = judged(
        run,
        (go[0], "link-saturated", "invalid", ("rps", "latency_p99_s")),
        (go[1], "link-saturated", "invalid", ("rps",)),
        (go[1], "shared-cpus", "suspect", ("rps",)),
        (go[2], "shared-cpus", "suspect", ("rps",)),
        unchecked={"cold": "the server tells no count"},
    )
    shown = built(build_verdicts, doubted)
    assert shown.summary == "7 of 10 trials are valid, 1 suspect, 2 invalid."
    assert cells(shown.matrix) == [
        ["go", "invalid", "invalid", "suspect", "\N{CHECK MARK}", "\N{CHECK MARK}"],
        ["nginx-go", *["\N{CHECK MARK}"] * 5],
    ]
    assert cells(shown.reasons) == [
        [
            *("invalid", "link-saturated", "go", "2", "1, 2"),
            *("So much <b>link-saturated</b>. It means. Do this.", "RPS, p99 latency"),
        ],
        ["suspect", "shared-cpus", "go", "2", "2, 3", "So much <b>shared-cpus</b>. It means. Do this.", "RPS"],
    ]
    assert cells(shown.skipped_checks) == [["cold", "1 of 10", "the server tells no count"]]
    html = page((doubted, ()))
    assert "Validity of the results" in html
    assert "So much &lt;b&gt;link-saturated" in html


def test_excluded_trials_are_in_no_median_and_noted(run: StoredRun) -> None:
    nginx = ids(run, "stack=nginx-go")
    doubted = judged(run, (nginx[0], "errors", "invalid", ("rps",)), (nginx[1], "cold", "suspect", ("rps",)))
    summary = summarise(doubted)
    left = summary[1]
    assert left.rps == tuple(run.trials_of("stack=nginx-go")["rps"].iloc[1:])
    assert "1 trial excluded (invalid: errors)" in describe_cell(left, run.labels, 5)[1]


def test_a_cell_whose_trials_are_all_invalid_is_shown_and_not_ranked(run: StoredRun) -> None:
    everything = [(trial, "link-saturated", "invalid", ("rps",)) for trial in ids(run, "stack=nginx-go")]
    summary = summarise(judged(run, *everything))
    cell = summary[1]
    figure, detail = describe_cell(cell, run.labels, 5)
    assert figure != "no result"
    assert "all of them excluded from comparisons (invalid: link-saturated)" in detail
    assert cell.ratio is None
    assert not cell.is_usable


def test_excluded_trials_are_hollow_with_their_reason(run: StoredRun) -> None:
    go, nginx = ids(run, "stack=go"), ids(run, "stack=nginx-go")
    reasons = [(trial, "link-saturated", "invalid", ("rps",)) for trial in [go[0], *nginx]]
    svg = render(FIGURES["rps"], judged(run, *reasons)).svg.decode()
    assert svg.count("(invalid: link-saturated)") == 6
    doubted, plain = (
        " ".join(text.get_text() for text in RATES.draw(each).findobj(Text))
        for each in (judged(run, *reasons), judged(run))
    )
    assert "hollow: excluded" in doubted
    assert ", invalid" in doubted
    assert "hollow" not in plain
    assert "invalid" not in plain


def test_cpu_per_request_stays_valid_if_only_the_rate_is_invalid(make_run: MakeRun) -> None:
    run = make_run()
    run = replace(run, trials=run.trials.assign(server_cpu_s_per_request=1e-5))
    doubted = judged(run, *[(trial, "generator-saturated", "invalid", ("rps",)) for trial in ids(run, "stack=go")])
    assert not any(each.covers("server_cpu_s_per_request") for each in doubted.data.exclusions)
    assert sum(each.covers("rps") for each in doubted.data.exclusions) == 5


def test_every_trial_has_its_verdict_with_the_checks(run: StoredRun) -> None:
    go = ids(run, "stack=go")
    judged_run = judged(run, (go[0], "errors", "suspect", ("rps",)), (go[0], "cold", "invalid", ("rps",)))
    content = built(build_trials, judged_run)
    verdicts_shown = {row["Verdict"] for row in records(content.table)}
    assert verdicts_shown == {"invalid (errors, cold)", "valid"}


def rows(run: StoredRun, progress: RunProgress) -> list[list[str]]:
    return cells(built(build_failures, replace(run, progress=progress)).table)


def test_failures_are_listed_by_cell_and_block(make_run: MakeRun) -> None:
    run = make_run()
    first, second = (cell.cell_id for cell in run.manifest.cells)
    events: list[JournalEvent] = []
    for block in (1, 2, 3):
        events += [trial("started", f"a{block}", block, first), trial("ended", f"a{block}", block, first)]
        events += [
            trial("started", f"b{block}", block, second),
            trial("failed", f"b{block}", block, second, why="crash"),
        ]
    events += [
        trial("started", "a4", 4, first),
        trial("failed", "a4", 4, first, why="lost", will_retry=True),
        trial("ended", "a4", 4, first),
        trial("skipped", "b4", 4, second, why="gone"),
        BlockInterrupted(block=1, round=2, trials=("a1",)),
    ]
    found = rows(run, read_progress(events))
    assert [row[1:] for row in found if row[0] == found[-1][0]] == [
        ["1", "failed", "crash"],
        ["2", "failed", "crash"],
        ["3", "failed", "crash"],
        ["4", "skipped", "gone"],
    ]
    assert [row[1:3] for row in found if row[0] != found[-1][0]] == [["1", "interrupted"], ["4", "retried"]]


ENTRIES: list[dict[str, Any]] = [
    {"cell": {"stack": "go"}, "figures": {"rps": 128403, "latency_mean_s": 0.039}},
    {"cell": {"stack": "nginx-go"}, "figures": {"rps": 74443, "errors_timeout": 0}, "note": "on 8 <threads>"},
    {"cell": {"stack": "fcgi"}, "figures": {"rps": 24027}},
]


def rows_of(run: StoredRun) -> list[tuple[str, ...]]:
    shown = built(build_published, run)
    return [tuple(entry.text for entry in row) for row in shown.table.rows]


def judged_cells(run: StoredRun, doubts: Mapping[str, tuple[str, str, list[str]]]) -> StoredRun:
    """Return the run with a reason against each of these trials: severity, check, metrics. All others are valid."""
    rows = [
        {"trial_id": trial_id, "check": check, "severity": severity, "metrics": metrics}
        for trial_id, (severity, check, metrics) in doubts.items()
    ]
    tables = {"verdicts": pd.concat([empty_frame("verdicts"), pd.DataFrame(rows)])} if rows else {}
    verdicts = [doubts[trial_id][0] if trial_id in doubts else "valid" for trial_id in run.trials["trial_id"]]
    trials = run.trials.assign(verdict=pd.Series(verdicts, index=run.trials.index, dtype=object))
    return replace(run, trials=trials, table=lambda name: tables.get(name, empty_frame(name)))


def test_published_figures_are_compared_with_medians_of_included_trials(make_run: MakeRun) -> None:
    run = make_run(blocks=5, scenario={"published": ENTRIES})
    ids = run.trials_of("stack=go")["trial_id"].tolist()
    fastest = run.trials_of("stack=go").set_index("trial_id")["rps"].nlargest(2).index.tolist()
    slow = next(trial_id for trial_id in ids if trial_id not in fastest)
    run = judged_cells(
        run,
        {
            fastest[0]: ("invalid", "link-saturated", ["rps"]),
            fastest[1]: ("invalid", "link-saturated", ["rps"]),
            slow: ("suspect", "unstable", ["rps"]),
        },
    )
    rates = run.trials_of("stack=go").set_index("trial_id")["rps"].drop(fastest)
    rps, latency, *_ = rows_of(run)
    assert rps == (
        "go", "RPS", "128,403", f"{rates.median():,.0f}", "2 valid, 1 suspect, 2 invalid (link-saturated, unstable)", ABSENT,
    )  # fmt: skip
    assert (latency[1:3], latency[4]) == (("mean latency", "39.0 ms"), "5 valid")


def test_a_figure_without_valid_trials_is_marked_invalid(make_run: MakeRun) -> None:
    run = make_run(blocks=3, scenario={"published": ENTRIES})
    reasons = dict.fromkeys(run.trials_of("stack=go")["trial_id"], ("invalid", "generator-saturated", ["rps"]))
    rps, *_ = rows_of(judged_cells(run, reasons))
    assert rps[3].endswith(", invalid")
    assert rps[4] == "3 invalid (generator-saturated)"


def test_trials_without_verdict_are_not_called_valid(make_run: MakeRun) -> None:
    (rps, *_) = rows_of(make_run(blocks=2, scenario={"published": ENTRIES}))
    assert rps[4] == "2 not judged"


def test_missing_cells_have_a_reason(make_run: MakeRun) -> None:
    run = make_run(
        {"stack": ["go", "nginx-go", "nginx-http"]},
        blocks=2,
        unsupported={"stack=nginx-go": "nginx is too old"},
        scenario={"published": ENTRIES},
    )
    *_, rate, timeouts, other = rows_of(run)
    assert rate[3:] == (ABSENT, ABSENT, "on 8 <threads>; nginx is too old")
    assert timeouts[1:4] == ("timeouts", "0", ABSENT)
    assert other == ("fcgi", "RPS", "24,027", ABSENT, ABSENT, "no such cell in this run")
    html = page((run, ()))
    assert "Published and measured figures" in html
    assert "on 8 &lt;threads&gt;" in html


def test_a_published_figure_of_several_cells_is_compared_with_each(make_run: MakeRun) -> None:
    entries = [{"cell": {"stack": "go"}, "figures": {"rps": 40000}}]
    run = make_run({"stack": ["go", "nginx-go"], "connections": [128, 8000]}, scenario={"published": entries})
    assert [row[0] for row in rows_of(run)] == ["go, connections 128", "go, connections 8000"]


def test_published_shares_are_compared_with_those_of_profiles(make_run: MakeRun) -> None:
    entries = [
        {"cell": {"server": "nethttp", "connections": 4000}, "shares": {"mcall": 0.401}, "note": "for 8000"},
        {"cell": {"server": "nethttp", "connections": 16000}, "shares": {"mcall": 0.557}},
    ]
    factors = {"server": ["nethttp", "gnet"], "connections": [200, 4000]}
    run = make_run(factors, blocks=3, scenario={"published": entries})
    assert [row[3:] for row in rows_of(run)] == [
        (ABSENT, ABSENT, "for 8000; it was not profiled"),
        (ABSENT, ABSENT, "no such cell in this run"),
    ]
    run = with_profiles(run)
    (mine,) = (each for each in run.service_profiles if each.cell_id == "server=nethttp,connections=4000")
    here, elsewhere = rows_of(run)
    assert here == (
        "nethttp, connections 4000", "mcall, cumulative share of the CPU", "40.1 %",
        f"{mine.cumulative['mcall'] * 100:.1f} %", "2 profiles", "for 8000",
    )  # fmt: skip
    assert elsewhere[3] == ABSENT


def columns(run: StoredRun) -> dict[str, set[str]]:
    """Return the texts of each column of the section."""
    content = built(build_trials, run)
    cells = zip(*content.table.rows, strict=True)
    return {
        column.title: {entry.text for entry in entries}
        for column, entries in zip(content.table.columns, cells, strict=True)
    }


def test_protocols_and_handshakes_have_columns_where_any_trial_has_tls(make_run: MakeRun) -> None:
    run = make_run({"protocol": ["http1", "h2"]}, blocks=2)
    plain = replace(run, trials=run.trials.assign(protocol="http1"))
    assert not {"Protocol", "TLS", "Cipher", "Resumed"} & columns(plain).keys()
    encrypted = run.trials["factor_protocol"] == "h2"
    figures = {"handshakes_per_s": 1200.0, "resumed_share": 0.25, "server_cpu_s_per_handshake": 4e-4}
    trials = run.trials.assign(
        protocol=run.trials["factor_protocol"],
        tls_version=pd.Series("1.3", run.trials.index).where(encrypted),
        cipher=pd.Series("TLS_AES_128_GCM_SHA256", run.trials.index).where(encrypted),
        **{name: pd.Series(value, run.trials.index).where(encrypted) for name, value in figures.items()},
    )
    shown = columns(replace(run, trials=trials))
    assert shown["Protocol"] == {"http1", "h2"}
    assert "1.3" in shown["TLS"]
    assert "TLS_AES_128_GCM_SHA256" in shown["Cipher"]
    assert "1,200" in shown["TLS handshakes"]
    assert any(text.startswith("25") for text in shown["Resumed"])
    assert "400 µs" in shown["Server CPU per handshake"]


def test_memory_and_context_switches_have_columns_where_they_are_known(make_run: MakeRun) -> None:
    run = make_run(blocks=2)
    assert not {"Server memory", "Context switches per request"} & columns(run).keys()
    figures = {"server_memory_bytes": 3 * 2.0**20, "server_switches_per_request": 1.25}
    shown = columns(replace(run, trials=run.trials.assign(**figures)))
    assert shown["Server memory"] == {"3.00 MiB"}
    assert shown["Context switches per request"] == {"1.25"}


def test_workers_have_a_table(make_run: MakeRun) -> None:
    run = make_run(blocks=2)
    windows = dict(zip(run.trials["trial_id"], run.trials["duration_s"], strict=True))
    rows = [
        watched(trial, {"<front>": {9: 0.0, 10: 1.0, 11: 3.0}}, windows[trial]) for trial in ids(run, "stack=nginx-go")
    ]
    telemetry = pd.concat(rows)
    run = replace(run, table=lambda name: telemetry if name == "telemetry" else empty_frame(name))
    content = built(build_workers, run)
    shown = [[entry.text for entry in row] for row in content.table.rows]
    assert shown == [["nginx-go", "<front>", "sut", "2", "1.50", "1.50", "0", "2"]]
    assert "&lt;front&gt;" in page((run, ()))
    invalid = judged(run, *((trial, "errors", "invalid", ("rps",)) for trial in ids(run, "stack=nginx-go")))
    doubtful = built(build_workers, invalid)
    assert doubtful.table.rows[0][4].text == "1.50, invalid"


MIB = 1 << 20


def test_folders_of_services_have_a_table(make_run: MakeRun) -> None:
    run = make_run(blocks=2)
    rows = [
        {
            "trial_id": trial,
            "host": "sut",
            "service": "<proxy>",
            "instance": "cache",
            "metric": metric,
            "t_s": 2.0,
            "value": value,
        }
        for trial, size in zip(ids(run, "stack=nginx-go"), (2.0 * MIB, 4.0 * MIB), strict=True)
        for metric, value in (("folder_bytes", size), ("cpu_s_total", 1.0))
    ]
    telemetry = pd.DataFrame(rows)
    run = replace(run, table=lambda name: telemetry if name == "telemetry" else empty_frame(name))
    content = built(build_disk_usage, run)
    shown = [[entry.text for entry in row] for row in content.table.rows]
    assert shown == [["nginx-go", "<proxy>", "sut", "cache", "3.00 MiB", "4.00 MiB", "2"]]
    assert "&lt;proxy&gt;" in page((run, ()))


@pytest.mark.parametrize(
    ("value", "exact"),
    [(12.0, None), (285080.0, None), (231.92, "231.92"), (72645.34123456789, "72645.34"), (0.4, "0.4")],
)
def test_a_rounded_number_has_its_exact_value(value: float, exact: str | None) -> None:
    assert number(value, units.count).exact == exact


def test_an_absent_number_has_no_value() -> None:
    assert number(math.nan, units.count) == Entry(units.ABSENT, None, "number")
    assert Entry("text").exact is None


def test_neighbours_share_their_heading() -> None:
    columns = tuple(TableColumn(title, group=group) for title, group in (("a", ""), ("b", "x"), ("c", "x"), ("d", "")))
    assert Table("t", "T", columns, ()).groups == (ColumnGroup("", 1), ColumnGroup("x", 2), ColumnGroup("", 1))
    assert Table("t", "T", columns[:1], ()).groups == ()


def test_unprintable_characters_are_replaced() -> None:
    hostile = "a\x00b\N{RIGHT-TO-LEFT OVERRIDE}c\ud800\n\td  é日"
    mark = "\N{REPLACEMENT CHARACTER}"
    assert legible(hostile) == f"a{mark}b{mark}c{mark}\n\td  é日"
    assert clean(hostile) == f"a{mark}b{mark}c{mark} d é日"
