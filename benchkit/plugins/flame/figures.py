"""Flame graphs as figures: every call as wide as its share, below its caller; coloured by package, or by its change."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MultipleLocator

from benchkit import units
from benchkit.errors import InputError
from benchkit.models.profile import Frame, Profile, ValueType
from benchkit.plugins.flame.call_tree import Call, CallTree, call_tree, self_shares
from benchkit.plugins.flame.selection import SelectedProfile, baseline_profile, compared_profile
from benchkit.report.figure import ReportFigure, provenance
from benchkit.report.layout import WIDTH_IN, Declaration, new_figure, shorten
from benchkit.report.rendering import render_figure
from benchkit.report.stored_run import StoredRun
from benchkit.report.style import drawable, hover, style
from benchkit.report.theme import EVERYTHING, INK, KERNEL, LESS, MORE, PACKAGES, SURFACE, Tone
from benchkit.safe_text import clean

MIN_SHARE = 0.002
"""Share of the whole from which a call is drawn: narrower ones are a point wide on paper."""
MAX_CALLS = 1500
MAX_DEPTH = 64
"""Depth of the calls that are drawn: recursion may have thousands."""

STEPS = (0.002, 0.01, 0.03)
"""Shares from which a difference has the next stronger colour."""
UNCHANGED = STEPS[0] / 4
"""Difference below which two shares are shown as the same."""

_CPU_KINDS = {"samples", "cpu", "cpu-clock", "task-clock", "cycles"}
_MAX_NAMED = 5
_ROW_IN, _AXIS_IN = 0.155, 0.5
_SIZE, _INSET_IN = 6.5, 0.025
_MIN_CHARACTERS = 4
"""Characters that a label has at least; a shorter one says nothing."""


@style()
def draw_profile(tree: CallTree, *, title: str, name: str, source: str, has_kernel: bool) -> Figure:
    """Draw the call tree of a profile, coloured by package; `name` says in the subtitle what it is of."""
    amount = f"{_amount(tree.root.value, tree.value_type)} of {_measured(tree.value_type)}"
    return _draw_icicle(
        tree,
        title=title,
        subtitle=[f"{name}, {amount} \N{MIDDLE DOT} each function below its caller"],
        source=source,
        tone=lambda call: frame_tone(call.frame),
        text=lambda call: _hover_text(tree, call),
        legend={"kernel": KERNEL} if has_kernel else {},
    )


@style()
def draw_difference(tree: CallTree, *, title: str, name: str, base: str, source: str) -> Figure:
    """Draw the call tree of a profile that is compared with that of `base`, coloured by the change of each call."""
    small, medium, large = (f"{100 * step:g}" for step in STEPS)
    ranges = (f"below {small}", f"{small} to {medium}", f"{medium} to {large}", f"from {large}")
    less = {f"\N{MINUS SIGN} {text}": tone for text, tone in zip(ranges, LESS, strict=True)}
    more = {f"+ {text}": tone for text, tone in zip(ranges, MORE, strict=True)}

    def text(call: Call) -> str:
        before = units.share(tree.base_share(call.base))
        return f"{_hover_text(tree, call)}; {before} in {base}: {100 * tree.change(call):+.2f} points"

    return _draw_icicle(
        tree,
        title=title,
        subtitle=[f"width: {name} \N{MIDDLE DOT} colour: its change from {base}, in percentage points"],
        source=source,
        tone=lambda call: change_tone(tree.change(call)),
        text=text,
        legend={**dict(reversed(less.items())), "same": EVERYTHING, **more},
    )


def describe_profile(tree: CallTree, name: str) -> str:
    """Describe a flame graph: the functions with most time of their own."""
    ranked = sorted(self_shares(tree).items(), key=lambda each: (-each[1][0], each[0]))[:_MAX_NAMED]
    functions = "; ".join(f"{clean(label)} {units.share(share)}" for label, (share, _) in ranked)
    return f"Flame graph of {name}; functions with most time of their own: {functions}."


def describe_difference(tree: CallTree, name: str, base: str) -> str:
    """Describe a differential flame graph: the functions whose own share changed most."""
    ranked = sorted(self_shares(tree).items(), key=lambda each: (-abs(each[1][1]), each[0]))[:_MAX_NAMED]
    functions = "; ".join(f"{clean(label)} {100 * change:+.1f} points" for label, (_, change) in ranked)
    return f"Differential flame graph of {name} against {base}; own shares that changed most: {functions}."


def profile_svg(
    profile: Profile, name: str, *, value: int | None = None, base: tuple[Profile, str] | None = None
) -> str:
    """Return the flame graph of a profile as an SVG file, compared with `base` and its name if given.

    `value` is the index of the value type that gives the widths; the default one of the profile without it.
    """
    tree = call_tree(profile, value=value, base=base[0] if base else None)
    source = f"{name}, by {profile.profiler}"
    if base is None:
        title, alt = "Flame graph", describe_profile(tree, name)
        drawn = draw_profile(tree, title=title, name=name, source=source, has_kernel=profile.has_kernel)
    else:
        title, alt = "Differential flame graph", describe_difference(tree, name, base[1])
        drawn = draw_difference(tree, title=title, name=name, base=base[1], source=source)
    return render_figure(drawn, title=title, alt=alt, key=name).svg.decode()


def _flame_caption(run: StoredRun) -> str:
    selected = _selected(run)
    kernel = (
        "the kernel's functions are blue"
        if selected.profile.has_kernel
        else "this profiler sees no kernel, whose time is that of the system calls"
    )
    return (
        f"{selected.name}, {units.counted(selected.trials, 'profile')} merged. Each function stands below its caller, as "
        "wide as its share of the CPU samples; point at it to see its name and share. Colours distinguish packages; "
        f"{kernel}. {_omission(call_tree(selected.profile))} `benchkit profile flame` with --cell draws any cell, or "
        "writes its profile for speedscope, which has zoom and search."
    )


def _draw_flame(run: StoredRun) -> Figure:
    selected = _selected(run)
    return draw_profile(
        call_tree(selected.profile),
        title=FLAME.title,
        name=f"{selected.name} \N{MIDDLE DOT} {units.counted(selected.trials, 'profile')}",
        source=provenance(run),
        has_kernel=selected.profile.has_kernel,
    )


def _flame_alt(run: StoredRun) -> str:
    selected = _selected(run)
    return describe_profile(call_tree(selected.profile), selected.name)


FLAME = ReportFigure(
    name="flame",
    title="Flame graph of the baseline",
    is_available=lambda run: baseline_profile(run) is not None,
    alt=_flame_alt,
    caption=_flame_caption,
    see="The widest boxes are the functions that take most of the CPU, their callers above them.",
    draw=_draw_flame,
    data="profiles",
)


def _difference_caption(run: StoredRun) -> str:
    selected, base = _compared(run)
    share, base_share = (units.share(each.figures.waiting) for each in (selected, base))
    reason = (
        "Of the profiled cells with the same program it differs most from the baseline in the share of finding and waiting for "
        f"work: {share} against {base_share}."
        if share != base_share
        else "Of the profiled cells with the same program it is the one whose categories differ most from the baseline's."
    )
    return (
        f"Widths are shares of {selected.name}. Colours show by how much of all its CPU samples a function, with its calls, "
        f"takes more (red) or less (blue) than in {base.name}. {reason} Functions that only the baseline calls are not in "
        f"it. {_omission(call_tree(selected.profile, base=base.profile))}"
    )


def _difference_alt(run: StoredRun) -> str:
    selected, base = _compared(run)
    return describe_difference(call_tree(selected.profile, base=base.profile), selected.name, base.name)


def _draw_run_difference(run: StoredRun) -> Figure:
    selected, base = _compared(run)
    tree = call_tree(selected.profile, base=base.profile)
    return draw_difference(tree, title=DIFFERENCE.title, name=selected.name, base=base.name, source=provenance(run))


DIFFERENCE = ReportFigure(
    name="flame-difference",
    title="Difference from the baseline's flame graph",
    is_available=lambda run: compared_profile(run) is not None,
    alt=_difference_alt,
    caption=_difference_caption,
    see="Red boxes take more of the CPU than in the baseline cell, blue boxes less.",
    draw=_draw_run_difference,
    data="profiles",
)


def _selected(run: StoredRun) -> SelectedProfile:
    selected = baseline_profile(run)
    if selected is None:
        raise InputError(f"run {run.manifest.run_id} has no profiles with stacks")
    return selected


def _compared(run: StoredRun) -> tuple[SelectedProfile, SelectedProfile]:
    selected, base = compared_profile(run), baseline_profile(run)
    if selected is None or base is None:
        raise InputError(f"run {run.manifest.run_id} has no two profiles to compare")
    return selected, base


@dataclass(frozen=True)
class Box:
    """Place of a call: depth from 0 at the root, left edge and width as shares of the whole."""

    depth: int
    left: float
    width: float
    call: Call


def boxes(tree: CallTree) -> list[Box]:
    """Return the calls that are drawn: of at least `MIN_SHARE`, up to `MAX_DEPTH` deep, the widest `MAX_CALLS`."""
    whole = tree.root.value
    drawn: list[Box] = []
    pending = [Box(0, 0.0, 1.0, tree.root)] if whole else []
    while pending:
        box = pending.pop()
        drawn.append(box)
        left = box.left
        for label in sorted(box.call.calls):
            call = box.call.calls[label]
            width = call.value / whole
            if width >= MIN_SHARE and box.depth + 1 < MAX_DEPTH:
                pending.append(Box(box.depth + 1, left, width, call))
            left += width
    if len(drawn) > MAX_CALLS:  # no call is wider than its caller, so that none loses its own
        least = sorted((box.width for box in drawn), reverse=True)[MAX_CALLS]
        drawn = [box for box in drawn if box.width > least]
    return sorted(drawn, key=lambda box: (box.depth, box.left))


def short_name(label: str) -> str:
    """Return a Go function without the folders of its package, as Go programs call it: `http.(*conn).serve`."""
    path, slash, _ = label.partition("(")[0].rpartition("/")
    return label if {":", " "} & set(path) else label[len(path) + len(slash) :]


def frame_tone(frame: Frame) -> Tone:
    """Return the colour of a frame: one for the kernel, else by package, so that related neighbours look alike."""
    if frame.kernel:
        return KERNEL
    return PACKAGES[zlib.crc32(package(frame.label).encode("utf-8", "replace")) % len(PACKAGES)]


def change_tone(change: float) -> Tone:
    """Return the colour of a difference of shares."""
    if abs(change) < UNCHANGED:
        return EVERYTHING
    return (MORE if change > 0 else LESS)[sum(abs(change) >= step for step in STEPS)]


def package(label: str) -> str:
    """Return the package of a function: Go's `net/http`, C++'s `v8`, Node's `JS`, the prefix of a name in C."""
    if "::" in label:
        return label.partition("::")[0].rpartition(" ")[2].rpartition("<")[2]
    if (script := label.partition(":"))[1]:
        return script[0]
    path, slash, name = label.partition("(")[0].rpartition("/")
    return path + slash + name.partition("." if "." in name else "_")[0]


def _omission(tree: CallTree) -> str:
    wide = [depth for depth, call in tree.calls() if call.value >= MIN_SHARE * tree.root.value]
    deep = f", nor calls deeper than {MAX_DEPTH}" if max(wide, default=0) >= MAX_DEPTH else ""
    many = (
        f"; of the others the widest {MAX_CALLS:,} are" if sum(depth < MAX_DEPTH for depth in wide) > MAX_CALLS else ""
    )
    return f"Calls below {MIN_SHARE:.1%} of the whole are not drawn{deep}{many}."


def _draw_icicle(
    tree: CallTree,
    *,
    title: str,
    subtitle: Sequence[str],
    source: str,
    tone: Callable[[Call], Tone],
    text: Callable[[Call], str],
    legend: Mapping[str, Tone],
) -> Figure:
    """Draw the tree, its root at the top; `tone` and `text` give the colour and the hover text of a call."""
    drawn = boxes(tree)
    rows = max((box.depth for box in drawn), default=0) + 1
    handles = [(Patch(facecolor=each.light), name) for name, each in legend.items()]
    figure = new_figure(Declaration(title, subtitle, source, handles), _ROW_IN * rows + _AXIS_IN)
    axes = figure.subplots()
    axes.set_xlim(0, 1)
    axes.set_ylim(rows, 0)
    by_tone: dict[Tone, list[Box]] = {}
    for box in drawn:
        by_tone.setdefault(EVERYTHING if box.depth == 0 else tone(box.call), []).append(box)
    for each, alike in by_tone.items():
        _draw_boxes(axes, alike, each, text)
    for box in drawn:
        _draw_label(axes, box)
    axes.grid(visible=False)
    axes.set_yticks([])
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.xaxis.set_major_locator(MultipleLocator(0.1))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0%}"))
    axes.set_xlabel(f"share of the {_measured(tree.value_type)}")
    return figure


def _draw_boxes(axes: Axes, drawn: Sequence[Box], tone: Tone, text: Callable[[Call], str]) -> None:
    collection = PolyCollection(
        [
            [(left, box.depth), (left, box.depth + 1), (right, box.depth + 1), (right, box.depth)]
            for box in drawn
            for left, right in [(box.left, box.left + box.width)]
        ],
        facecolors=tone.light,
        edgecolors=SURFACE.light,
        linewidths=0.4,
        clip_on=False,
    )
    collection.set_in_layout(False)
    hover(collection, *(text(box.call) for box in drawn), most=len(drawn))
    axes.add_collection(collection, autolim=False)


def _draw_label(axes: Axes, box: Box) -> None:
    """Write the name of a call, as much of it as fits; nothing if that is too little."""
    name = drawable(short_name(clean(box.call.frame.label)))
    label = shorten(name, box.width * WIDTH_IN - 2 * _INSET_IN, _SIZE)
    if label == name or len(label) > _MIN_CHARACTERS:
        written = axes.text(
            box.left + _INSET_IN / WIDTH_IN,
            box.depth + 0.52,
            label,
            size=_SIZE,
            color=INK.light,
            va="center_baseline",
        )
        written.set_in_layout(False)


def _hover_text(tree: CallTree, call: Call) -> str:
    """Return the share of a call, and of its own time: `handle (kernel): 12.3 %, itself 1.2 %`."""
    kernel = " (kernel)" if call.frame.kernel else ""
    itself = call.value - sum(each.value for each in call.calls.values())
    return (
        f"{call.frame.label}{kernel}: {units.share(tree.share(call.value))}, itself {units.share(tree.share(itself))}"
    )


def _measured(value_type: ValueType) -> str:
    return "CPU samples" if value_type.kind.partition(":")[0] in _CPU_KINDS else clean(value_type.kind)


def _amount(value: int, value_type: ValueType) -> str:
    """Return a value as text: a time, a size, or a number of what is counted."""
    time_s = value_type.seconds(value)
    if time_s is not None:
        return units.seconds(time_s)
    return units.size(value) if value_type.unit == "bytes" else units.count(value)
