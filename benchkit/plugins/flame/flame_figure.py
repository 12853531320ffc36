"""CPU time of the baseline cell, call by call: the profile merged over its trials as a flame graph."""

from __future__ import annotations

from matplotlib.figure import Figure

from benchkit import units
from benchkit.errors import InputError
from benchkit.plugins.flame.functions import amount, function_table
from benchkit.plugins.flame.icicle import draw_icicle, omission, shares
from benchkit.plugins.flame.selection import SelectedProfile, baseline_profile
from benchkit.plugins.flame.tree import Node, call_tree
from benchkit.report.figures.figure import ReportFigure, provenance
from benchkit.report.palette import KERNEL, tone
from benchkit.report.stored_run import StoredRun
from benchkit.report.style import styled
from benchkit.safe_text import clean

TITLE = "Flame graph of the baseline"

_MAX_NAMED = 5


def is_available(run: StoredRun) -> bool:
    """Return True if the profiles of a service are stored with their stacks."""
    return baseline_profile(run) is not None


def alt(run: StoredRun) -> str:
    """Describe the functions with most time of their own."""
    selected = _selected(run)
    functions = "; ".join(
        f"{clean(row.function)} {row.itself}" for row in function_table(call_tree(selected.profile))[:_MAX_NAMED]
    )
    return f"Flame graph of {selected.name}; functions with most time of their own: {functions}."


def caption(run: StoredRun) -> str:
    """Explain the graph, and what is not drawn."""
    selected = _selected(run)
    kernel = (
        "the kernel's functions are blue"
        if selected.profile.has_kernel
        else "this profiler sees no kernel, whose time is that of the system calls"
    )
    return (
        f"{selected.name}, {units.counted(selected.trials, 'profile')} merged. Each function stands below its caller, as "
        "wide as its share of the CPU samples; point at it to see its name and share. Colours distinguish packages; "
        f"{kernel}. {omission(call_tree(selected.profile))} `benchkit profile flame` with --cell writes a page of any "
        "cell, with zoom and search."
    )


@styled
def draw(run: StoredRun) -> Figure:
    """Draw the call tree, its root at the top."""
    selected = _selected(run)
    tree = call_tree(selected.profile)
    samples = f"{units.counted(selected.trials, 'profile')}, {amount(tree.root.value, tree.value_type)} of CPU samples"
    return draw_icicle(
        tree,
        title=TITLE,
        subtitle=[f"{selected.name} \N{MIDDLE DOT} {samples} \N{MIDDLE DOT} each function below its caller"],
        source=provenance(run),
        tone=lambda node: tone(node.frame),
        text=lambda node: _text(node, tree.root.value),
        legend={"kernel": KERNEL} if selected.profile.has_kernel else {},
    )


FIGURE = ReportFigure(
    name="flame",
    title=TITLE,
    is_available=is_available,
    alt=alt,
    caption=caption,
    see="The widest boxes are the functions that take most of the CPU, their callers above them.",
    draw=draw,
    data="profiles",
)


def _selected(run: StoredRun) -> SelectedProfile:
    selected = baseline_profile(run)
    if selected is None:
        raise InputError(f"run {run.manifest.run_id} has no profiles with stacks")
    return selected


def _text(node: Node, whole: int) -> str:
    kernel = " (kernel)" if node.frame.kernel else ""
    return f"{node.frame.label}{kernel}: {shares(node, whole)}"
