"""Where the CPU time of the baseline cell goes, call by call: the profile merged over its trials as a flame graph."""

from __future__ import annotations

from matplotlib.figure import Figure

from benchkit import units
from benchkit.report.clean_text import clean
from benchkit.report.figures.figure import ReportFigure, provenance
from benchkit.report.flame.icicle import draw_icicle, left_out, shares
from benchkit.report.flame.page import amount, functions
from benchkit.report.flame.palette import KERNEL, tone
from benchkit.report.flame.selection import shown
from benchkit.report.flame.tree import Node, call_tree
from benchkit.report.stored_run import StoredRun
from benchkit.report.style import styled

TITLE = "Flame graph of the baseline"

_NAMED = 5


def available(run: StoredRun) -> bool:
    """Whether the profiles of a service are there with their stacks."""
    return bool(shown(run))


def alt(run: StoredRun) -> str:
    """The functions with most time of their own, in words."""
    (chosen,) = shown(run)
    said = "; ".join(f"{clean(row.function)} {row.itself}" for row in functions(call_tree(chosen.profile))[:_NAMED])
    return f"Flame graph of {chosen.name}; functions with most time of their own: {said}."


def caption(run: StoredRun) -> str:
    """What is drawn, and what is left out."""
    (chosen,) = shown(run)
    kernel = (
        "the kernel's functions are blue"
        if chosen.profile.has_kernel
        else "this profiler sees no kernel, whose time is that of the system calls"
    )
    return (
        f"{chosen.name}, {units.counted(chosen.trials, 'profile')} together. Each function stands below its caller, as wide "
        "as its share of the CPU samples; pointing at it shows its name and share. Colours tell packages apart; "
        f"{kernel}. {left_out(call_tree(chosen.profile))} `benchkit profile flame` with --cell makes a page of any cell, "
        "to be zoomed and searched."
    )


@styled
def draw(run: StoredRun) -> Figure:
    """The figure: the root at the top."""
    (chosen,) = shown(run)
    tree = call_tree(chosen.profile)
    taken = f"{units.counted(chosen.trials, 'profile')}, {amount(tree.root.value, tree.value_type)} of CPU samples"
    return draw_icicle(
        tree,
        title=TITLE,
        subtitle=[f"{chosen.name} \N{MIDDLE DOT} {taken} \N{MIDDLE DOT} each function below its caller"],
        foot=provenance(run),
        tone=lambda node: tone(node.frame),
        said=lambda node: _said(node, tree.root.value),
        keys={"kernel": KERNEL} if chosen.profile.has_kernel else {},
    )


FIGURE = ReportFigure(
    name="flame", title=TITLE, available=available, alt=alt, caption=caption, draw=draw, data="profiles"
)


def _said(node: Node, whole: int) -> str:
    where = " (kernel)" if node.frame.kernel else ""
    return f"{node.frame.label}{where}: {shares(node, whole)}"
