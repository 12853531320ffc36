"""Flame graphs in the report."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex, to_rgba_array
from matplotlib.figure import Figure

from benchkit.errors import InputError
from benchkit.models.profile import Profile
from benchkit.models.rows import VerdictRow
from benchkit.models.trial import ProfileRecord
from benchkit.plugins.flame import figures
from benchkit.plugins.flame.call_tree import call_tree
from benchkit.plugins.flame.figures import boxes, change_tone, short_name
from benchkit.profiles.merge import merge_profiles
from benchkit.profiles.profile_file import read_profile
from benchkit.report.figures.registry import get_figure
from benchkit.report.pages.page import page
from benchkit.report.pages.report_files import draw_figures
from benchkit.report.rendering import render
from benchkit.report.stored_run import StoredRun, read_run
from benchkit.report.theme import KERNEL
from benchkit.store.parquet_files import arrow_table, empty_frame
from benchkit.store.profile_tables import read_profiles
from benchkit.store.store import Store
from tests.support.paths import TESTS
from tests.support.report.reading import drawn_texts, parse, texts
from tests.unit.plugins.test_flame import FASTER, HOSTILE, SERVER, profile_of
from tests.unit.store.test_profile_tables import record

MakeRun = Callable[..., StoredRun]

FIXTURES = TESTS / "fixtures" / "profiles"
FLAME, DIFFERENCE = get_figure("flame"), get_figure("flame-difference")


def profile(name: str) -> Profile:
    return read_profile((FIXTURES / name).read_bytes())


def with_stacks(run: StoredRun, profiles: Mapping[str, Sequence[Profile]]) -> StoredRun:
    """Return the run with a profile trial for each of these profiles of a cell's service `app`."""
    from benchkit.store import profile_tables as rows_of  # noqa: PLC0415 - what makes rows of one that is read

    parts, functions, shares, stacks = [run.trials], [], [], {}
    for cell_id, taken in profiles.items():
        for number, each in enumerate(taken, start=1):
            trial_id = f"{cell_id}-{number}"
            first = run.trials_of(cell_id).head(1)
            parts.append(first.assign(block=run.manifest.blocks + number, kind="profile", trial_id=trial_id))
            profile_record = ProfileRecord(service="app", host="sut", profiler=each.profiler, file="app")
            functions += list(rows_of._functions(trial_id, profile_record, each))
            shares += list(rows_of._shares(trial_id, profile_record, each))
            stacks[trial_id] = each
    tables = {
        name: arrow_table(name, rows).to_pandas() for name, rows in (("profile", functions), ("profile_share", shares))
    }
    return replace(
        run,
        trials=pd.concat(parts, ignore_index=True),
        table=lambda name: tables[name] if name in tables else empty_frame(name),
        merged_profile=lambda trials, _: merge_profiles([stacks[trial_id] for trial_id in trials]),
    )


@pytest.fixture(scope="module")
def studied(make_run: MakeRun) -> StoredRun:
    """net/http under 200 and 2,000 connections, and gnet under 2,000."""
    run = make_run({"server": ["nethttp", "gnet"], "connections": [200, 2000]}, blocks=3)
    return with_stacks(
        run,
        {
            "server=nethttp,connections=200": [profile("nethttp-go1.16.pb.gz")] * 2,
            "server=nethttp,connections=2000": [profile("nethttp-go1.16-2000.pb.gz")],
            "server=gnet,connections=2000": [profile("gnet.pb.gz")],
        },
    )


def drawn(figure: Figure) -> list[tuple[str, float, float, float]]:
    """Return the drawn calls: (colour, depth, left, width)."""
    found = []
    for artist in figure.axes[0].collections:
        tone = to_hex(to_rgba_array(artist.get_facecolor())[0])
        for path in artist.get_paths():
            corners = np.asarray(path.vertices)
            (left, top), (right, _) = corners[0].tolist(), corners[2].tolist()
            found.append((tone, top, left, right - left))
    return found


def test_every_call_is_as_wide_as_its_share_and_below_its_caller() -> None:
    found = boxes(call_tree(SERVER))
    places = {(box.depth, box.call.frame.label): (box.left, box.width) for box in found}
    assert [places[0, "all"], places[1, "main"]] == [(0.0, 1.0)] * 2
    assert places[2, "collect"] == pytest.approx((0, 0.15))
    assert places[2, "serve"] == pytest.approx((0.15, 0.85))
    assert places[3, "handle"] == pytest.approx((0.15, 0.4))
    assert places[4, "format"] == pytest.approx((0.15, 0.3))
    assert places[3, "read"] == pytest.approx((0.55, 0.4))


def test_narrow_calls_are_omitted_without_moving_others() -> None:
    found = boxes(call_tree(profile_of(("main > a", 1), ("main > b", 999))))
    assert [(box.call.frame.label, box.left) for box in found] == [("all", 0), ("main", 0), ("b", 0.001)]


def test_the_number_of_drawn_calls_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "MAX_CALLS", 21)
    found = boxes(call_tree(profile_of(*((f"main > f{i} > g{i}", i) for i in range(1, 101)))))
    assert len(found) <= 21
    labels = {box.call.frame.label for box in found}
    assert {label.replace("g", "f") for label in labels if label.startswith("g")} <= labels
    assert "f100" in labels


def test_deep_recursion_is_truncated_with_a_note(make_run: MakeRun) -> None:
    run = with_stacks(
        make_run({"server": ["a"]}, blocks=1), {"server=a": [profile_of((" > ".join(["walk"] * 500), 7))]}
    )
    assert max(depth for _, depth, _, _ in drawn(FLAME.draw(run))) == figures.MAX_DEPTH - 1
    assert "calls deeper than 64 are omitted" in FLAME.caption(run)


def test_a_profile_without_samples_draws_no_calls() -> None:
    assert boxes(call_tree(profile_of())) == []


def test_the_baseline_is_drawn_merged_over_its_trials(studied: StoredRun) -> None:
    tree = call_tree(profile("nethttp-go1.16.pb.gz"))
    shown = drawn(FLAME.draw(studied))
    assert len(shown) == len(boxes(tree))
    assert any("2 profiles" in text and "server nethttp" not in text for text in drawn_texts(FLAME.draw(studied)))
    assert FLAME.caption(studied).startswith("nethttp, connections 200, 2 profiles merged.")
    assert "runtime.epollwait" in FLAME.alt(studied)


def test_the_first_profile_is_drawn_if_the_baseline_has_none(studied: StoredRun) -> None:
    shares = studied.profile_shares
    of_base = shares["trial_id"].str.contains("connections=200-")
    tables = {"profile_share": shares[~of_base], "profile": studied.table("profile")}
    left = replace(studied, table=lambda name: tables[name] if name in tables else empty_frame(name))
    assert FLAME.caption(left).startswith("nethttp, connections 2000, 1 profile merged.")


def test_the_busiest_service_is_drawn(make_run: MakeRun) -> None:
    run = with_stacks(make_run({"server": ["a"]}, blocks=1), {"server=a": [SERVER]})
    idle = profile_of(("idle > wait", 1_000_000))
    other = with_stacks(make_run({"server": ["a"]}, blocks=1), {"server=a": [idle]})
    tables = {
        name: pd.concat([other.table(name).assign(service="front"), run.table(name)], ignore_index=True)
        for name in ("profile", "profile_share")
    }
    both = replace(
        run,
        table=lambda name: tables[name] if name in tables else empty_frame(name),
        merged_profile=lambda _, service: SERVER if service == "app" else idle,
    )
    assert ": app, 1 profile merged." in FLAME.caption(both)
    assert "sys_read 40.0 %" in FLAME.alt(both)


def test_calls_have_hover_texts(make_run: MakeRun) -> None:
    run = with_stacks(make_run({"server": ["a"]}, blocks=1), {"server=a": [SERVER]})
    drawing = render(FLAME, run)
    for text in (drawing.svg.decode(), drawing.element):
        assert "<title>handle: 40.0 %, itself 10.0 %</title>" in text
        assert "<title>sys_read (kernel): 40.0 %, itself 40.0 %</title>" in text
    assert drawing.element.count("<title>") == len(boxes(call_tree(SERVER)))


def test_the_kernel_has_a_colour_of_its_own(make_run: MakeRun) -> None:
    run = with_stacks(make_run({"server": ["a"]}, blocks=1), {"server=a": [profile("nginx-return.perf.txt.gz")]})
    tree = call_tree(profile("nginx-return.perf.txt.gz"))
    blue = [box for box in drawn(FLAME.draw(run)) if box[0] == KERNEL.light]
    assert len(blue) == sum(box.call.frame.kernel for box in boxes(tree)) > 50
    assert "kernel" in drawn_texts(FLAME.draw(run))
    assert "the kernel's functions are blue" in FLAME.caption(run)
    assert "this profiler sees no kernel" in FLAME.caption(
        with_stacks(make_run({"server": ["a"]}, blocks=1), {"server=a": [profile("gnet.pb.gz")]})
    )


def test_names_are_shortened_and_escaped(make_run: MakeRun) -> None:
    run = make_run({"server": ["a"]}, blocks=1)
    harmful = with_stacks(run, {"server=a": [profile_of(*((f"main > {name}", 10) for name in HOSTILE))]})
    element = render(FLAME, harmful).element
    assert "&lt;img src=x onerror=window.harmed=1&gt;" in element
    assert "<img" not in element
    long = "x" * 400
    wide = with_stacks(run, {"server=a": [profile_of((f"main > {long}", 97), ("main > thin", 3))]})
    shown = drawn_texts(FLAME.draw(wide))
    assert "thin" not in shown
    assert any(text.startswith("xxx") and text.endswith("x…") for text in shown)


@pytest.mark.parametrize(
    ("label", "shown"),
    [
        ("net/http.(*conn).serve", "http.(*conn).serve"),
        ("github.com/valyala/fasthttp.(*Server).serveConn.func1", "fasthttp.(*Server).serveConn.func1"),
        ("main.handle(net/http.Request)", "main.handle(net/http.Request)"),
        ("JS:*hello /srv/server.js:8:15", "JS:*hello /srv/server.js:8:15"),
        ("[nginx]", "[nginx]"),
    ],
)
def test_go_functions_lose_the_folders_of_their_package(label: str, shown: str) -> None:
    assert short_name(label) == shown


def test_the_same_program_with_the_largest_difference_is_compared(studied: StoredRun) -> None:
    caption = DIFFERENCE.caption(studied)
    assert caption.startswith("Widths are shares of nethttp, connections 2000.")
    assert "smaller (blue) than in nethttp, connections 200." in caption
    assert (
        "its share of finding and waiting for work differs most from the baseline's: 6.9 % against 40.1 %." in caption
    )
    tree = call_tree(profile("nethttp-go1.16-2000.pb.gz"), base=profile("nethttp-go1.16.pb.gz"))
    shown = drawn(DIFFERENCE.draw(studied))
    assert len(shown) == len(boxes(tree))
    for box in boxes(tree):
        change = box.call.value / tree.root.value - box.call.base / tree.root.base
        assert (change_tone(change).light, float(box.depth), box.left) in [each[:3] for each in shown]
    assert "runtime.epollwait -23.3 points" in DIFFERENCE.alt(studied)
    hovers = texts(parse(render(DIFFERENCE, studied).element), "title")
    assert any(
        re.fullmatch(
            r"net/http\.\(\*conn\)\.serve: [\d.]+ %, itself [\d.]+ %; [\d.]+ % in nethttp, connections 200: \+[\d.]+ points",
            text,
        )
        for text in hovers
    )


def test_another_program_is_not_compared(make_run: MakeRun) -> None:
    run = make_run({"server": ["nethttp", "gnet"]}, blocks=1)
    both = {"server=nethttp": [profile("nethttp-go1.26.pb.gz")], "server=gnet": [profile("gnet.pb.gz")]}
    assert FLAME.is_available(with_stacks(run, both))
    assert not DIFFERENCE.is_available(with_stacks(run, both))


def test_equal_scheduler_shares_are_compared_by_category(make_run: MakeRun) -> None:
    run = make_run({"size": [1, 2, 3]}, blocks=1)
    programs = {"size=1": [SERVER], "size=2": [SERVER], "size=3": [FASTER]}
    caption = DIFFERENCE.caption(with_stacks(run, programs))
    assert caption.startswith("Widths are shares of size 3.")
    assert "its categories differ most" in caption


def test_flame_graphs_are_small_themed_and_reproducible(studied: StoredRun) -> None:
    for figure in (FLAME, DIFFERENCE):
        drawing, repeated = render(figure, studied), render(figure, studied)
        assert (drawing.svg, drawing.png) == (repeated.svg, repeated.png)
        assert not re.search(r"#[0-9a-f]{6}\b", drawing.element)
        assert len(drawing.element) < 200_000
    written = page((studied, [each for each in draw_figures(studied) if each.figure in (FLAME, DIFFERENCE)]))
    for name in set(re.findall(r"var\((--(?:pack|more|less)[\w-]+)\)", written)):
        assert written.count(f"{name}:") == 2, "one for light surfaces, one for dark ones"


def test_flame_graphs_need_profiles_and_raw_files(run: StoredRun, studied: StoredRun) -> None:
    assert not FLAME.is_available(run)
    assert not DIFFERENCE.is_available(run)
    without = replace(studied, merged_profile=lambda _trials, _service: None)
    assert not FLAME.is_available(without)
    assert not DIFFERENCE.is_available(without)


def test_profiles_are_read_from_raw_files(run: StoredRun, tmp_path: Path) -> None:
    store = Store(tmp_path)
    folder = store.create(run.manifest)
    content = (FIXTURES / "gnet.pb.gz").read_bytes()
    app = ProfileRecord(service="app", host="sut", profiler="pprof", file="app.pb.gz")
    trial = record(app)
    folder.commit_trial(trial, {"app.pb.gz": content})
    assert read_profiles(trial, lambda _: content).notes == ()
    stacks = read_run(store, folder).merged_profile
    found = stacks((trial.trial_id,), "app")
    assert found == read_profile(content)
    assert stacks((trial.trial_id,), "app") is found, "read once"
    assert read_run(store, folder).merged_profile((trial.trial_id, "left-out"), "app") is None
    with pytest.raises(InputError, match="no profile of service 'front'"):
        stacks((trial.trial_id,), "front")


def test_excluded_profiles_are_not_merged(studied: StoredRun) -> None:
    row = VerdictRow(
        trial_id="server=nethttp,connections=200-2",
        check="throttled",
        severity="invalid",
        metrics=("rps",),
        seen="",
        threshold="",
        text="Throttled.",
        scope="trial",
    )
    verdicts = arrow_table("verdicts", [row]).to_pandas()
    doubted = replace(studied, table=lambda name: verdicts if name == "verdicts" else studied.table(name))
    assert FLAME.caption(doubted).startswith("nethttp, connections 200, 1 profile merged.")
