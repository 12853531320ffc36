from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from benchkit.errors import ParseError
from benchkit.models.profile import Frame, Profile, ValueType
from benchkit.profiles.perf_script import parse_perf_script
from benchkit.profiles.profile_file import read_profile
from tests.support.paths import TESTS

FIXTURES = TESTS / "fixtures" / "profiles"
RECORDED = sorted(path.name for path in FIXTURES.glob("*.perf.txt.gz"))

CLOCK = ValueType("cpu-clock", "nanoseconds")
SAMPLES = ValueType("samples", "count")

STACK = """\
nginx 4711/4712 [001]  5158.414337:    3412969 cpu-clock:pppH:
\tffffffff81e2eed9 sock_write_iter+0x179 ([kernel.kallsyms])
\tffffffffc0a01234 nf_hook_slow+0x44 ([nf_tables])
\tffffffffc0b01234 [unknown] ([unknown])
\t           fde9d writev+0x4d (/usr/lib/x86_64-linux-gnu/libc.so.6)
\t           1da0a std::pair<int (ns::(anonymous namespace)::P::*)(), 1>::get(int, char)+0x1a (/usr/bin/a (1).so)
\t             ae7 __vdso_time+0x27 ([vdso])
\t               0 [unknown] ([unknown])

"""


def frames_of(profile: Profile) -> list[Frame]:
    return [profile.frames[place] for place in profile.stacks[0]]


def test_a_stack_is_read_line_by_line() -> None:
    profile = parse_perf_script(STACK)
    assert frames_of(profile) == [
        Frame("sock_write_iter", "[kernel.kallsyms]", kernel=True),
        Frame("nf_hook_slow", "[nf_tables]", kernel=True),
        Frame("", None, kernel=True),
        Frame("writev", "/usr/lib/x86_64-linux-gnu/libc.so.6"),
        Frame("std::pair<int (ns::(anonymous namespace)::P::*)(), 1>::get(int, char)", "/usr/bin/a (1).so"),
        Frame("__vdso_time", "[vdso]"),
        Frame("", None),
    ]
    assert (profile.value_type, profile.weights, profile.profiler) == (CLOCK, (3412969,), "perf")


@pytest.mark.parametrize(
    "header",
    [
        "nginx 4711 [001] 5158.414337:    3412969 cpu-clock:",
        "nginx 4711 5158.414337:    3412969 cpu-clock:u:  ",
        "nginx: worker process  4711/4711  5158.414337468:    3412969 cpu-clock:khpppH:",
        "a b [1] 2.5: c  26028 [000]  5138.104642:    3412969 cpu-clock:",
        "   :4711  4711 [001] 5158.414337:    3412969 cpu-clock:",
        "nginx  4711 3412969 cpu-clock:",
    ],
)
def test_all_forms_of_sample_headers_are_read(header: str) -> None:
    profile = parse_perf_script(f"{header}\n\t fde9d writev+0x4d (libc.so.6)\n\n")
    assert (profile.value_type, profile.weights) == (CLOCK, (3412969,))
    assert frames_of(profile) == [Frame("writev", "libc.so.6")]


def test_comments_windows_line_ends_and_empty_stacks_are_accepted() -> None:
    text = "# captured on: today\n#\n" + STACK + "swapper 0 [000] 5158.5: 10 cpu-clock:\n\n"
    assert parse_perf_script(text).weights == (3412969, 10)
    assert read_profile(text.replace("\n", "\r\n").encode()) == parse_perf_script(text)


def test_of_several_events_the_clock_counts() -> None:
    frame = "\t fde9d writev+0x4d (libc.so.6)\n\n"
    profile = parse_perf_script(f"a 1 1.5: 7 page-faults:u:\n{frame}a 1 1.6: 9 task-clock:\n{frame}")
    assert (profile.value_type, profile.weights) == (ValueType("task-clock", "nanoseconds"), (9,))


def test_without_periods_samples_are_only_counted() -> None:
    profile = parse_perf_script("a 1 1.5: cpu-clock:\n\t fde9d x (y)\n\na 1 1.6: cpu-clock:\n\t fde9d x (y)\n\n")
    assert (profile.value_type, profile.weights) == (SAMPLES, (2,))
    assert len(profile.stacks) == len(profile.frames) == 1


@pytest.mark.parametrize("name", RECORDED)
def test_every_sample_and_frame_of_a_recording_is_read(
    name: str, recorded: Callable[[str], Profile], unpacked: Callable[[str], bytes]
) -> None:
    """Count in another way: header lines, sums of their periods, lines of frames."""
    profile, text = recorded(name), unpacked(name).decode()
    heads = re.findall(r"^.*?[0-9]+\.[0-9]{6}: +(?:([0-9]+) )?cpu-clock:", text, re.MULTILINE)
    assert len(heads) > 90
    assert sum(profile.weights) == (sum(map(int, heads)) if heads[0] else len(heads))
    stacks = re.findall(r"cpu-clock: *\n((?:\t.*\n)+)", text)
    assert not stacks or max(map(len, profile.stacks)) == max(stack.count("\n") for stack in stacks)
    assert {frame.kernel for frame in profile.frames if frame.module == "[kernel.kallsyms]"} <= {True}
    assert not any(frame.kernel for frame in profile.frames if (frame.module or "").startswith("/"))


def test_the_names_of_a_deleted_program_are_unknown(recorded: Callable[[str], Profile]) -> None:
    labels = {frame.label for frame in recorded("native-deleted.perf.txt.gz").frames}
    assert "[native]" in labels
    assert not any("deleted" in label or "unknown" in label for label in labels)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("nothing\n", "line 1 is not the first line of a sample: 'nothing'"),
        (STACK + "\nsomething else\n", "line 11 is not the first line of a sample"),
        (STACK.replace("+0x4d (", "+0x4d "), "line 5 is not a frame"),
        (STACK.removesuffix("\n"), "it ends in the middle of a sample"),
        (STACK[: STACK.index("\n") + 1], "it ends in the middle of a sample"),
        ("# comment\n\n", "it contains no sample"),
    ],
)
def test_other_text_is_refused(text: str, why: str) -> None:
    with pytest.raises(ParseError, match=re.escape(why)):
        parse_perf_script(text)
