"""Flame graphs as figures: every call as wide as its share, below its caller; coloured by package, or by its change."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MultipleLocator

from benchkit import units
from benchkit.models.profile import Frame, Profile, ValueType
from benchkit.plugins.flame.call_tree import Call, CallTree, call_tree, self_shares
from benchkit.plugins.flame.selection import selected_profiles
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

_OMITTED = (
    f"Calls below {MIN_SHARE:.1%} of the whole and calls deeper than {MAX_DEPTH} are omitted; at most the "
    f"{MAX_CALLS:,} widest are drawn."
)

_CPU_KINDS = {"samples", "cpu", "cpu-clock", "task-clock", "cycles"}
_MAX_NAMED = 5
_ROW_IN, _AXIS_IN = 0.155, 0.5
_SIZE, _INSET_IN = 6.5, 0.025
_MIN_CHARACTERS = 4
"""Least characters of a label: a shorter one is omitted."""


@dataclass(frozen=True)
class FlameGraph:
    """The flame graph of a profile, or with `base` of its difference from another profile.

    `value` is the index of the value type that gives the widths; the default one of the profile without it.
    """

    profile: Profile
    name: str
    base: Profile | None = None
    base_name: str = ""
    value: int | None = None

    @cached_property
    def tree(self) -> CallTree:
        """Its calls, with the values of both profiles."""
        return call_tree(self.profile, value=self.value, base=self.base)

    @property
    def alt(self) -> str:
        """Description: the functions with most time of their own, or those whose own share changed most."""
        if self.base is None:
            ranked = sorted(self_shares(self.tree).items(), key=lambda each: (-each[1][0], each[0]))[:_MAX_NAMED]
            functions = "; ".join(f"{clean(label)} {units.share(share)}" for label, (share, _) in ranked)
            return f"Flame graph of {self.name}; functions with most time of their own: {functions}."
        ranked = sorted(self_shares(self.tree).items(), key=lambda each: (-abs(each[1][1]), each[0]))[:_MAX_NAMED]
        functions = "; ".join(f"{clean(label)} {100 * change:+.1f} points" for label, (_, change) in ranked)
        between = f"{self.name} against {self.base_name}"
        return f"Differential flame graph of {between}; own shares that changed most: {functions}."

    @style()
    def draw(self, *, title: str, source: str, note: str = "") -> Figure:
        """Draw the calls, coloured by package, or by their change; `note` stands behind the name in the subtitle."""
        if self.base is None:
            root, kind = self.tree.root, self.tree.value_type
            return _draw_icicle(
                self.tree,
                title=title,
                subtitle=[
                    f"{self.name}{note}, {kind.shown(root.value)} of {_measured(kind)} \N{MIDDLE DOT} each function below its caller"
                ],
                source=source,
                tone=lambda call: frame_tone(call.frame),
                text=self._hover_text,
                legend={"kernel": KERNEL} if self.profile.has_kernel else {},
            )
        small, medium, large = (f"{100 * step:g}" for step in STEPS)
        ranges = (f"below {small}", f"{small} to {medium}", f"{medium} to {large}", f"from {large}")
        less = {f"\N{MINUS SIGN} {text}": tone for text, tone in zip(ranges, LESS, strict=True)}
        more = {f"+ {text}": tone for text, tone in zip(ranges, MORE, strict=True)}
        return _draw_icicle(
            self.tree,
            title=title,
            subtitle=[
                f"width: {self.name} \N{MIDDLE DOT} colour: its change from {self.base_name}, in percentage points"
            ],
            source=source,
            tone=lambda call: change_tone(self.tree.change(call)),
            text=self._hover_text,
            legend={**dict(reversed(less.items())), "same": EVERYTHING, **more},
        )

    def _hover_text(self, call: Call) -> str:
        """Return the share of a call, and of its own time: `handle (kernel): 12.3 %, itself 1.2 %`."""
        tree, kernel = self.tree, " (kernel)" if call.frame.kernel else ""
        itself = call.value - sum(each.value for each in call.calls.values())
        shares = f"{units.share(tree.share(call.value))}, itself {units.share(tree.share(itself))}"
        text = f"{call.frame.label}{kernel}: {shares}"
        if self.base is None:
            return text
        before = units.share(tree.base_share(call.base))
        return f"{text}; {before} in {self.base_name}: {100 * tree.change(call):+.2f} points"


def profile_svg(graph: FlameGraph) -> str:
    """Return a flame graph as an SVG file."""
    title = "Flame graph" if graph.base is None else "Differential flame graph"
    drawn = graph.draw(title=title, source=f"{graph.name}, by {graph.profile.profiler}")
    return render_figure(drawn, title=title, alt=graph.alt, key=graph.name).svg.decode()


def _of_baseline(run: StoredRun) -> FlameGraph:
    selected = selected_profiles(run)[0]
    return FlameGraph(selected.profile, selected.name)


def _of_difference(run: StoredRun) -> FlameGraph:
    base, selected = selected_profiles(run)
    return FlameGraph(selected.profile, selected.name, base.profile, base.name)


def _flame_caption(run: StoredRun) -> str:
    selected = selected_profiles(run)[0]
    kernel = (
        "the kernel's functions are blue"
        if selected.profile.has_kernel
        else "this profiler sees no kernel: the time there counts for the system calls"
    )
    return (
        f"{selected.name}, {units.counted(selected.trials, 'profile')} merged. Each function stands below its caller, as "
        "wide as its share of the CPU samples; point at it to see its name and share. Colours distinguish packages; "
        f"{kernel}. {_OMITTED} `benchkit profile flame` with --cell draws any cell, or "
        "writes its profile for speedscope, which has zoom and search."
    )


def _draw_flame(run: StoredRun) -> Figure:
    trials = units.counted(selected_profiles(run)[0].trials, "profile")
    return _of_baseline(run).draw(title=FLAME.title, source=provenance(run), note=f" \N{MIDDLE DOT} {trials}")


FLAME = ReportFigure(
    name="flame",
    title="Flame graph of the baseline",
    is_available=lambda run: bool(selected_profiles(run)),
    alt=lambda run: _of_baseline(run).alt,
    caption=_flame_caption,
    see="The widest boxes are the functions that take most of the CPU, their callers above them.",
    draw=_draw_flame,
    data="profiles",
)


def _difference_caption(run: StoredRun) -> str:
    base, selected = selected_profiles(run)
    share, base_share = (units.share(each.figures.waiting) for each in (selected, base))
    reason = (
        "Among profiled cells of the same program, its share of finding and waiting for work differs most from the "
        f"baseline's: {share} against {base_share}."
        if share != base_share
        else "Among profiled cells of the same program, its categories differ most from the baseline's."
    )
    return (
        f"Widths are shares of {selected.name}. Colours show by how much the share of a function, with its calls, is "
        f"larger (red) or smaller (blue) than in {base.name}. {reason} Functions that only the baseline calls are not drawn. "
        f"{_OMITTED}"
    )


DIFFERENCE: ReportFigure = ReportFigure(
    name="flame-difference",
    title="Difference from the baseline's flame graph",
    is_available=lambda run: len(selected_profiles(run)) > 1,
    alt=lambda run: _of_difference(run).alt,
    caption=_difference_caption,
    see="Red boxes take more of the CPU than in the baseline cell, blue boxes less.",
    draw=lambda run: _of_difference(run).draw(title=DIFFERENCE.title, source=provenance(run)),
    data="profiles",
)


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
    if len(drawn) > MAX_CALLS:  # no call is wider than its caller, so that every kept call keeps its caller
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


def _measured(value_type: ValueType) -> str:
    return "CPU samples" if value_type.kind.partition(":")[0] in _CPU_KINDS else clean(value_type.kind)
