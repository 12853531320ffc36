from __future__ import annotations

from benchkit.models.profile import Frame, Profile, ValueType
from benchkit.profiles.top import top


def profile_of(*samples: tuple[str, int]) -> Profile:
    """Return a profile of stacks written outermost first: `main > work > step`."""
    frames: dict[Frame, int] = {}
    stacks: list[tuple[int, ...]] = []
    for stack, _ in samples:
        names = [name for name in stack.split(" > ") if name]
        made = [Frame(name) for name in names]
        stacks.append(tuple(frames.setdefault(frame, len(frames)) for frame in reversed(made)))
    return Profile(
        profiler="pprof",
        value_type=ValueType("cpu", "nanoseconds"),
        frames=tuple(frames),
        stacks=tuple(stacks),
        weights=tuple(value for _, value in samples),
    )


def test_rows_are_sorted_by_value_then_by_name() -> None:
    profile = profile_of(("main > b", 5), ("main > a", 5), ("main > c > d", 7))
    assert [row.function for row in top(profile).rows] == ["d", "a", "b", "c", "main"]
    assert [row.function for row in top(profile, order="cum").rows] == ["main", "c", "d", "a", "b"]


def test_small_functions_are_dropped_and_skipped_as_callers() -> None:
    profile = profile_of(("main > big", 996), ("main > small > big", 4))
    table = top(profile)
    assert [(row.function, row.flat, row.cum) for row in table.rows] == [("big", 1000, 1000), ("main", 0, 1000)]
    assert table.functions == 3
    assert [row.function for row in top(profile, least_share=0).rows] == ["big", "main", "small"]
    assert [row.function for row in top(profile, most_rows=1).rows] == ["big"]


def test_unnamed_functions_are_merged_by_file() -> None:
    frames = (Frame("", "/bin/x"), Frame("", "/lib/y"), Frame(""), Frame("", "/opt/x"))
    profile = Profile("perf", ValueType("samples", "count"), frames, ((0, 1, 2, 3),), (1,))
    assert sorted(row.function for row in top(profile).rows) == ["<unknown>", "[x]", "[x]", "[y]"]
