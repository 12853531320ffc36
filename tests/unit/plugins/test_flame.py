from __future__ import annotations

from typing import Any
from xml.etree import ElementTree as ET

import pytest

from benchkit.models.profile import Frame, Profile, ValueType
from benchkit.plugins.flame.call_tree import CallTree, call_tree
from benchkit.plugins.flame.figures import (
    FlameGraph,
    change_tone,
    frame_tone,
    package,
    profile_svg,
)
from benchkit.report.theme import EVERYTHING, FLAME_TONES, INK, KERNEL, LESS, MORE

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
    return [(depth, call.frame.label, call.value) for depth, call in tree.calls()]


def test_the_tree_has_cumulative_values() -> None:
    tree = call_tree(profile_of(("main > b > c", 3), ("main > a", 2), ("main > b", 1), ("main > b > c", 4)))
    assert drawn(tree) == [(0, "all", 10), (1, "main", 10), (2, "a", 2), (2, "b", 8), (3, "c", 7)]


def test_compared_profiles_give_every_call_both_values() -> None:
    tree = call_tree(profile_of(("main > a", 6), ("main > new", 4)), base=profile_of(("main > a", 1), ("old", 1)))
    assert [(call.frame.label, call.value, call.base) for _, call in tree.calls()] == [
        ("all", 10, 2),
        ("main", 10, 1),
        ("a", 6, 1),
        ("new", 4, 0),
        ("old", 0, 1),
    ]


def test_deep_recursion_has_a_picture() -> None:
    assert "<svg" in profile_svg(FlameGraph(profile_of((" > ".join(["walk"] * 5000), 7)), "deep"))


def test_names_are_never_markup() -> None:
    svg = profile_svg(FlameGraph(profile_of(*((f"main > {name}", 10) for name in HOSTILE)), HOSTILE[0]))
    root = ET.fromstring(svg)  # noqa: S314 - drawn above
    assert not [element for element in root.iter() if element.tag.rpartition("}")[2] in {"script", "img"}]
    hovers = [str(element.text) for element in root.iter() if element.tag.endswith("title")]
    assert f"{HOSTILE[1]}: 25.0 %, itself 25.0 %" in hovers
    assert any(text.startswith("right-to-left \N{REPLACEMENT CHARACTER}gpj.exe") for text in hovers)


def test_the_description_has_the_main_functions() -> None:
    assert FlameGraph(SERVER, "server").alt == (
        "Flame graph of server; functions with most time of their own: "
        "sys_read 40.0 %; format 30.0 %; mark 15.0 %; handle 10.0 %; serve 5.0 %."
    )
    assert "sys_read +40.0 points; format -20.0 points" in FlameGraph(FASTER, "after", SERVER, "before").alt


def test_the_picture_of_a_difference_names_both_profiles() -> None:
    svg = profile_svg(FlameGraph(FASTER, "after", SERVER, "before"))
    assert "its change from before, in percentage points" in svg
    assert "<title>sys_read (kernel): 80.0 %, itself 80.0 %; 40.0 % in before: +40.00 points</title>" in svg


def test_the_same_profile_gives_the_same_picture() -> None:
    graph = FlameGraph(SERVER, "x", FASTER, "y")
    assert profile_svg(graph) == profile_svg(graph)


def test_a_profile_without_samples_has_a_picture() -> None:
    nothing = Profile("pprof", (ValueType("cpu", "nanoseconds"),), 0, (), (), (), ((),))
    assert "<svg" in profile_svg(FlameGraph(nothing, "nothing"))


def test_colours_of_differences_have_steps() -> None:
    assert [change_tone(change) for change in (0.0004, -0.0004)] == [EVERYTHING, EVERYTHING]
    assert [change_tone(change) for change in (0.001, 0.002, 0.02, 0.5)] == list(MORE)
    assert [change_tone(-change) for change in (0.001, 0.002, 0.02, 0.5)] == list(LESS)


def luminance(colour: str) -> float:
    """Relative luminance (WCAG 2.2)."""
    channels = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: str, other: str) -> float:
    low, high = sorted(map(luminance, (one, other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("colour", FLAME_TONES, ids=lambda colour: colour.name)
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
    assert frame_tone(Frame(label, kernel=True)) is KERNEL
