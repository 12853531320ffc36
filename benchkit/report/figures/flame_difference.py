"""What a profile spends its time on that the baseline's does not: the one as a flame graph, coloured by the change."""

from __future__ import annotations

from matplotlib.figure import Figure

from benchkit import units
from benchkit.report.clean_text import clean
from benchkit.report.figures.figure import ReportFigure, provenance
from benchkit.report.flame.icicle import draw_icicle, left_out, shares
from benchkit.report.flame.page import functions
from benchkit.report.flame.palette import LESS, MORE, SAME, STEPS, change_tone
from benchkit.report.flame.selection import SelectedProfiles, compared, shown
from benchkit.report.flame.tree import CallTree, Node, call_tree
from benchkit.report.stored_run import StoredRun
from benchkit.report.style import styled
from benchkit.report.theme import Tone

TITLE = "What differs from the baseline's flame graph"

_NAMED = 5


def available(run: StoredRun) -> bool:
    """Whether a profile of another cell is there that ran the same program."""
    return bool(compared(run))


def alt(run: StoredRun) -> str:
    """The functions whose own share changed most, in words."""
    chosen, base, tree = _given(run)
    said = "; ".join(f"{clean(row.function)} {row.change}" for row in functions(tree)[:_NAMED])
    return f"Differential flame graph of {chosen.name} against {base.name}; own shares that changed most: {said}."


def caption(run: StoredRun) -> str:
    """Whose widths and colours these are, and why of all cells this one is drawn."""
    chosen, base, tree = _given(run)
    one, other = (units.share(each.figures.scheduling) for each in (chosen, base))
    why = (
        "Of the profiled cells with the same program it is the one whose scheduler's share lies farthest from "
        f"the baseline's: {one} against {other}."
        if one != other
        else "Of the profiled cells with the same program it is the one whose categories differ most from the "
        "baseline's."
    )
    return (
        f"Widths are shares of {chosen.name}; colours tell by how much of all its CPU samples a function, with what it "
        f"calls, takes more (red) or less (blue) than in {base.name}. {why} What only the baseline calls is not in it. "
        f"{left_out(tree)}"
    )


@styled
def draw(run: StoredRun) -> Figure:
    """The figure: the root at the top."""
    chosen, base, tree = _given(run)
    return draw_icicle(
        tree,
        title=TITLE,
        subtitle=[f"width: {chosen.name} \N{MIDDLE DOT} colour: its change from {base.name}, in points of percentage"],
        foot=provenance(run),
        tone=lambda node: change_tone(_change(node, tree)),
        said=lambda node: _said(node, tree, base),
        keys=_keys(),
    )


FIGURE = ReportFigure(
    name="flame-difference", title=TITLE, available=available, alt=alt, caption=caption, draw=draw, data="profiles"
)


def _given(run: StoredRun) -> tuple[SelectedProfiles, SelectedProfiles, CallTree]:
    """What is drawn, what it is set against, and the tree of both."""
    (chosen,), (base,) = compared(run), shown(run)
    return chosen, base, call_tree(chosen.profile, base=base.profile)


def _change(node: Node, tree: CallTree) -> float:
    return node.value / tree.root.value - _before(node, tree)


def _before(node: Node, tree: CallTree) -> float:
    return node.base / tree.root.base if tree.root.base else 0.0


def _said(node: Node, tree: CallTree, base: SelectedProfiles) -> str:
    where = " (kernel)" if node.frame.kernel else ""
    before, change = units.share(_before(node, tree)), 100 * _change(node, tree)
    return f"{node.frame.label}{where}: {shares(node, tree.root.value)}; {before} in {base.name}: {change:+.2f} points"


def _keys() -> dict[str, Tone]:
    """The colours from least to most, with the points of percentage that they stand for."""
    small, medium, large = (f"{100 * step:g}" for step in STEPS)
    spans = (f"below {small}", f"{small} to {medium}", f"{medium} to {large}", f"from {large}")
    less = {f"\N{MINUS SIGN} {span}": tone for span, tone in zip(spans, LESS, strict=True)}
    more = {f"+ {span}": tone for span, tone in zip(spans, MORE, strict=True)}
    return {**dict(reversed(less.items())), "same": SAME, **more}
