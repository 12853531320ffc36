from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from benchkit.models.profile import Frame, Profile, ValueType
from benchkit.plugins.flame.page import flame_page
from benchkit.plugins.flame.tree import Node, call_tree

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


def paths(node: Node, way: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for label, call in node.calls.items():
        yield (*way, label)
        yield from paths(call, (*way, label))


SHOWN = "Array.from(document.querySelectorAll('.frame'), (f) => f.getAttribute('aria-label'))"
ZOOMED = "Array.from(document.querySelectorAll('.frame:not(.above)'), (f) => f.textContent)[0]"
DETAIL = "document.getElementById('detail').textContent"


def click(label: str) -> str:
    return f"Array.from(document.querySelectorAll('.frame')).find((f) => f.textContent === '{label}').click()"


def test_in_a_browser_every_call_is_drawn_as_wide_as_its_share(opened: Callable[[str], Any]) -> None:
    browser = opened(flame_page(SERVER, "server.pb.gz"))
    labels = browser.run(SHOWN)
    assert len(labels) == 1 + len(list(paths(call_tree(SERVER).root)))
    assert labels[0] == "all, 100.0 %"
    assert "sys_read, 40.0 %" in labels
    width = "document.querySelector('[aria-label^=\"{}\"]').getBoundingClientRect().width"
    assert browser.run(width.format("handle,")) / browser.run(width.format("all,")) == pytest.approx(0.4, abs=0.01)
    assert browser.run("document.querySelectorAll('.frame.pack-kernel').length") == 1
    assert browser.happened("Runtime.exceptionThrown", "Log.entryAdded") == []
    requests = [event["params"]["request"]["url"] for event in browser.happened("Network.requestWillBeSent")]
    assert [url.partition(":")[0] for url in requests] in (["file"], ["file", "data"])


def test_in_a_browser_mouse_and_keyboard_zoom(opened: Callable[[str], Any]) -> None:
    browser = opened(flame_page(SERVER, "server.pb.gz"))
    browser.run(click("handle"))
    assert browser.run(ZOOMED) == "handle"
    assert [label.partition(",")[0] for label in browser.run(SHOWN)] == ["serve", "main", "all", "handle", "format"]
    assert "75.0 % of what is zoomed to" not in browser.run(DETAIL)
    browser.press("ArrowDown")
    assert browser.run(DETAIL).startswith("format300 ms, 30.0 % of all; 75.0 % of what is zoomed to")
    browser.press("Enter")
    assert browser.run(ZOOMED) == "format"
    browser.press("Escape")
    browser.press("Escape")
    assert browser.run(ZOOMED) == "serve"
    browser.press("Home")
    browser.press("Enter")
    assert browser.run(ZOOMED) == "all"
    browser.press("ArrowDown")
    browser.press("ArrowDown")
    browser.press("ArrowLeft")
    assert browser.run(DETAIL).startswith("collect150 ms")
    browser.run("document.getElementById('out').click()")
    assert len(browser.run(SHOWN)) == 11


def test_in_a_browser_search_marks_functions(opened: Callable[[str], Any]) -> None:
    browser = opened(flame_page(SERVER, "server.pb.gz"))
    browser.press("/")
    assert browser.run("document.activeElement.id") == "search"
    browser.call("Input.insertText", text="MARK")
    assert browser.run("document.getElementById('found').textContent") == "1 function, 15.0 % of all"
    assert browser.run("document.querySelectorAll('.frame.hit').length") == 3
    browser.press("Enter")
    assert browser.run("document.activeElement.textContent") == "mark"


def test_in_a_browser_a_difference_has_colour_and_text(opened: Callable[[str], Any]) -> None:
    browser = opened(flame_page(FASTER, "after", base=(SERVER, "before")))
    colour = "Array.from(document.querySelectorAll('.frame')).find((f) => f.textContent === '{}').className"
    assert "more-4" in browser.run(colour.format("sys_read"))
    assert "less-4" in browser.run(colour.format("format"))
    assert not any(label.startswith("collect") for label in browser.run(SHOWN))
    browser.run("document.querySelector('[value=before]').click()")
    assert any(label.startswith("collect") for label in browser.run(SHOWN))
    browser.run(click("format"))
    assert "30.0 % before: \u221220.00 points" in browser.run(DETAIL)


def test_in_a_browser_hostile_names_do_nothing(opened: Callable[[str], Any]) -> None:
    browser = opened(flame_page(profile_of(*((f"main > {name}", 10) for name in HOSTILE)), HOSTILE[1]))
    browser.run(click(HOSTILE[1].replace("'", "\\'")))
    assert browser.run("window.harmed") is None
    assert browser.run(DETAIL).startswith(HOSTILE[1])
    assert browser.happened("Runtime.exceptionThrown", "Log.entryAdded") == []
