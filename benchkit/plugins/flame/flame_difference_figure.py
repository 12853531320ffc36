"""Difference of a profile from the baseline's: the profile as a flame graph, coloured by the change."""

from __future__ import annotations

from matplotlib.figure import Figure

from benchkit import units
from benchkit.errors import InputError
from benchkit.plugins.flame.functions import function_table
from benchkit.plugins.flame.icicle import draw_icicle, omission, shares
from benchkit.plugins.flame.selection import SelectedProfile, baseline_profile, compared_profile
from benchkit.plugins.flame.tree import CallTree, Node, call_tree
from benchkit.report.figures.figure import ReportFigure, provenance
from benchkit.report.palette import LESS, MORE, SAME, STEPS, change_tone
from benchkit.report.stored_run import StoredRun
from benchkit.report.style import styled
from benchkit.report.theme import Tone
from benchkit.safe_text import clean

TITLE = "Difference from the baseline's flame graph"

_MAX_NAMED = 5


def is_available(run: StoredRun) -> bool:
    """Return True if a profile of another cell is stored that ran the same program."""
    return compared_profile(run) is not None


def alt(run: StoredRun) -> str:
    """Describe the functions whose own share changed most."""
    selected, base, tree = _compared(run)
    functions = "; ".join(f"{clean(row.function)} {row.change}" for row in function_table(tree)[:_MAX_NAMED])
    return (
        f"Differential flame graph of {selected.name} against {base.name}; own shares that changed most: {functions}."
    )


def caption(run: StoredRun) -> str:
    """Explain widths and colours, and why this cell is drawn."""
    selected, base, tree = _compared(run)
    share, base_share = (units.share(each.figures.scheduling) for each in (selected, base))
    reason = (
        "Of the profiled cells with the same program it is the one whose scheduler's share differs most from the "
        f"baseline's: {share} against {base_share}."
        if share != base_share
        else "Of the profiled cells with the same program it is the one whose categories differ most from the baseline's."
    )
    return (
        f"Widths are shares of {selected.name}; colours show by how much of all its CPU samples a function, with its calls, "
        f"takes more (red) or less (blue) than in {base.name}. {reason} Functions that only the baseline calls are not in "
        f"it. {omission(tree)}"
    )


@styled
def draw(run: StoredRun) -> Figure:
    """Draw the call tree of both profiles, its root at the top."""
    selected, base, tree = _compared(run)
    return draw_icicle(
        tree,
        title=TITLE,
        subtitle=[f"width: {selected.name} \N{MIDDLE DOT} colour: its change from {base.name}, in percentage points"],
        source=provenance(run),
        tone=lambda node: change_tone(_change(node, tree)),
        text=lambda node: _text(node, tree, base),
        legend=_legend(),
    )


FIGURE = ReportFigure(
    name="flame-difference",
    title=TITLE,
    is_available=is_available,
    alt=alt,
    caption=caption,
    see="Red boxes take more of the CPU than in the baseline cell, blue boxes less.",
    draw=draw,
    data="profiles",
)


def _compared(run: StoredRun) -> tuple[SelectedProfile, SelectedProfile, CallTree]:
    """Return the profile that is drawn, that of the baseline, and the tree of both."""
    selected, base = compared_profile(run), baseline_profile(run)
    if selected is None or base is None:
        raise InputError(f"run {run.manifest.run_id} has no two profiles to compare")
    return selected, base, call_tree(selected.profile, base=base.profile)


def _change(node: Node, tree: CallTree) -> float:
    return node.value / tree.root.value - _base_share(node, tree)


def _base_share(node: Node, tree: CallTree) -> float:
    return node.base / tree.root.base if tree.root.base else 0.0


def _text(node: Node, tree: CallTree, base: SelectedProfile) -> str:
    kernel = " (kernel)" if node.frame.kernel else ""
    before, change = units.share(_base_share(node, tree)), 100 * _change(node, tree)
    return f"{node.frame.label}{kernel}: {shares(node, tree.root.value)}; {before} in {base.name}: {change:+.2f} points"


def _legend() -> dict[str, Tone]:
    """Return the colours from least to most, with their ranges in percentage points."""
    small, medium, large = (f"{100 * step:g}" for step in STEPS)
    ranges = (f"below {small}", f"{small} to {medium}", f"{medium} to {large}", f"from {large}")
    less = {f"\N{MINUS SIGN} {text}": tone for text, tone in zip(ranges, LESS, strict=True)}
    more = {f"+ {text}": tone for text, tone in zip(ranges, MORE, strict=True)}
    return {**dict(reversed(less.items())), "same": SAME, **more}
