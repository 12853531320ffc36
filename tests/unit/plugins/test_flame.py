from __future__ import annotations

import json
import re
from typing import Any

import pytest

from benchkit.models.profile import Frame, Profile, ValueType
from benchkit.plugins.flame.page import flame_page
from benchkit.plugins.flame.tree import CallTree, call_tree
from benchkit.report.palette import KERNEL, TONES, package, tone
from benchkit.report.theme import INK
from tests.support.report.reading import attributes, one, parse, texts

HOSTILE = (
    "</script><script>window.harmed=1</script>",
    "<img src=x onerror=window.harmed=1>",
    "{{ 7*7 }}\N{LINE SEPARATOR}\"';//",
    "right-to-left \N{RIGHT-TO-LEFT OVERRIDE}gpj.exe\x07",
)


def profile_of(*samples: tuple[str, int], unit: str = "nanoseconds") -> Profile:
    """Return a profile of stacks written outermost first: `main > work`; the prefix `k:` marks kernel functions."""
    frames: dict[Frame, int] = {}
    stacks = []
    for stack, _ in samples:
        made = [Frame(name.removeprefix("k:"), kernel=name.startswith("k:")) for name in stack.split(" > ")]
        stacks.append(tuple(frames.setdefault(frame, len(frames)) for frame in reversed(made)))
    return Profile(
        profiler="pprof",
        value_types=(ValueType("cpu", unit),),
        default_value=0,
        frames=tuple(frames),
        stacks=tuple(stacks),
        samples=tuple(range(len(stacks))),
        values=(tuple(value for _, value in samples),),
    )


SERVER = profile_of(
    ("main > serve > read > k:sys_read", 400_000_000),
    ("main > serve > handle > format", 300_000_000),
    ("main > serve > handle", 100_000_000),
    ("main > collect > mark > mark > mark", 150_000_000),
    ("main > serve", 50_000_000),
)
FASTER = profile_of(
    ("main > serve > read > k:sys_read", 400_000_000),
    ("main > serve > handle > format", 50_000_000),
    ("main > serve > handle", 50_000_000),
)


def drawn(tree: CallTree) -> list[tuple[int, str, int]]:
    return [(depth, node.frame.label, node.value) for depth, node in tree.nodes()]


def test_the_tree_has_cumulative_values() -> None:
    tree = call_tree(profile_of(("main > b > c", 3), ("main > a", 2), ("main > b", 1), ("main > b > c", 4)))
    assert drawn(tree) == [(0, "all", 10), (1, "main", 10), (2, "a", 2), (2, "b", 8), (3, "c", 7)]


def test_compared_profiles_give_every_call_both_values() -> None:
    tree = call_tree(profile_of(("main > a", 6), ("main > new", 4)), base=profile_of(("main > a", 1), ("old", 1)))
    assert [(node.frame.label, node.value, node.base) for _, node in tree.nodes()] == [
        ("all", 10, 2),
        ("main", 10, 1),
        ("a", 6, 1),
        ("new", 4, 0),
        ("old", 0, 1),
    ]


def test_the_smallest_calls_are_pruned_with_their_calls() -> None:
    tree = call_tree(profile_of(*((f"main > f{i} > g{i}", i) for i in range(1, 101))))
    pruned = tree.pruned(21)
    assert len(list(pruned.nodes())) <= 22
    assert drawn(pruned)[:3] == [(0, "all", 5050), (1, "main", 5050), (2, "f100", 100)]
    kept = [label for _, label, _ in drawn(pruned) if label.startswith("g")]
    assert {label.replace("g", "f") for label in kept} <= {label for _, label, _ in drawn(pruned)}
    assert tree.pruned(1000) is tree


def test_deep_recursion_has_a_page() -> None:
    html = flame_page(profile_of((" > ".join(["walk"] * 5000), 7)), "deep")
    assert data_of(html)["nodes"][-2:] == [5000, 7]
    assert ["walk", "100.0 %", "100.0 %"] in table_rows(html)


def data_of(html: str) -> dict[str, Any]:
    """Return the input of the page's script."""
    data: dict[str, Any] = json.loads(one(parse(html), "script#data").get_text())
    return data


def table_rows(html: str) -> list[list[str]]:
    """Return the table below the graph."""
    return [texts(row, "th, td") for row in parse(html).select("tbody tr")]


def test_the_page_fetches_nothing_and_runs_only_its_own_script() -> None:
    html = flame_page(SERVER, "server.pb.gz")
    root = parse(html)
    assert not re.search(r"https?://|url\(|@import", html)
    assert not [name for element in root.select("*") for name in element.attrs if name.startswith("on")]
    (policy,) = attributes(root, "meta[http-equiv]", "content")
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    assert [element.attrs for element in root.select("script")] == [{"type": "application/json", "id": "data"}, {}]
    assert root.select("[style]") == []


def test_names_are_never_markup() -> None:
    html = flame_page(profile_of(*((f"main > {name}", 10) for name in HOSTILE)), HOSTILE[0])
    root = parse(html)
    assert len(root.select("script")) == 2
    assert root.select("img") == []
    labels = [frame[0] for frame in data_of(html)["frames"]]
    assert HOSTILE[0] in labels
    assert HOSTILE[1] in labels
    assert "right-to-left \N{REPLACEMENT CHARACTER}gpj.exe\N{REPLACEMENT CHARACTER}" in labels
    assert "{{ 7*7 }} \"';//" in labels
    assert "49" not in labels
    assert texts(root, "h1") == [HOSTILE[0]]


def test_the_table_has_the_main_functions_without_the_script() -> None:
    assert table_rows(flame_page(SERVER, "server.pb.gz"))[:4] == [
        ["sys_read", "40.0 %", "40.0 %"],
        ["format", "30.0 %", "30.0 %"],
        ["mark", "15.0 %", "15.0 %"],
        ["handle", "10.0 %", "40.0 %"],
    ]


def test_the_table_of_a_difference_has_the_largest_change_first() -> None:
    html = flame_page(FASTER, "after", base=(SERVER, "before"))
    assert [(row[0], row[3]) for row in table_rows(html)[:2]] == [
        ("sys_read", "+40.0 points"),
        ("format", "-20.0 points"),
    ]
    assert "compared with before" in html


def test_the_same_profile_gives_the_same_page() -> None:
    assert flame_page(SERVER, "x", base=(FASTER, "y")) == flame_page(SERVER, "x", base=(FASTER, "y"))


def test_a_profile_without_samples_has_a_page() -> None:
    nothing = Profile("pprof", (ValueType("cpu", "nanoseconds"),), 0, (), (), (), ((),))
    assert data_of(flame_page(nothing, "nothing"))["nodes"] == [0, 0, 0]


def luminance(colour: str) -> float:
    """Relative luminance (WCAG 2.2)."""
    channels = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: str, other: str) -> float:
    low, high = sorted(map(luminance, (one, other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("colour", TONES, ids=lambda colour: colour.name)
def test_names_have_enough_contrast_on_every_colour(colour: Any) -> None:  # noqa: ANN401 - a Tone; ids wants the same name
    assert contrast(colour.light, INK.light) >= 4.5
    assert contrast(colour.dark, INK.dark) >= 4.5


@pytest.mark.parametrize(
    ("label", "of"),
    [
        ("net/http.(*conn).serve", "net/http"),
        ("github.com/valyala/fasthttp.(*Server).serveConn", "github.com/valyala/fasthttp"),
        ("runtime.mcall", "runtime"),
        ("v8::internal::Heap::Scavenge", "v8"),
        ("non-virtual thunk to node::Stream::Write(uv_buf_t**)", "node"),
        ("std::pair<a::b, c::d>::get", "std"),
        ("JS:*end node:_http_outgoing:1034:45", "JS"),
        ("ngx_http_parse_request_line", "ngx"),
        ("[nginx]", "[nginx]"),
    ],
)
def test_functions_of_a_package_have_its_colour(label: str, of: str) -> None:
    assert package(label) == of
    assert tone(Frame(label, kernel=True)) is KERNEL
