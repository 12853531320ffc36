"""Flame graph as one HTML file that fetches nothing, with zoom, search and keyboard control.

The page is benchkit's own. d3-flame-graph would have to be copied into this repository or fetched by each reader, since
the file must work offline; speedscope, for which `benchkit profile flame -o FILE.json` writes a file, shows no
difference of two profiles. Neither can be used with a screen reader.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from markupsafe import Markup

from benchkit import units
from benchkit.models.profile import PER_SECOND, Profile
from benchkit.plugins.flame.functions import amount, function_table
from benchkit.plugins.flame.tree import CallTree, call_tree
from benchkit.report import html
from benchkit.report.palette import EVERYTHING, style, tone
from benchkit.safe_text import clean
from benchkit.version import __version__


def flame_page(
    profile: Profile, name: str, *, value: int | None = None, base: tuple[Profile, str] | None = None
) -> str:
    """Return the page of a profile by the value of that index (the default one), compared with `base` if given."""
    tree = call_tree(profile, value=value, base=base[0] if base else None)
    shown = tree.pruned()
    sheet, script = html.theme() + style() + html.asset("flame.css"), html.asset("flame.js")
    return (
        html.environment()
        .get_template("flame.html.j2")
        .render(
            title=clean(name),
            since=clean(base[1]) if base else None,
            facts=list(_facts(profile, tree)),
            data=_data(shown),
            rows=function_table(tree),
            style=Markup(sheet),  # noqa: S704 - a file of this package, without data
            script=Markup(script),  # noqa: S704 - a file of this package, without data
            policy=html.policy(sheet, script),
            version=__version__,
        )
    )


def _facts(profile: Profile, tree: CallTree) -> Iterator[tuple[str, str]]:
    """Yield the facts in the heading."""
    kind = tree.value_type
    yield "Profiler", profile.profiler
    yield "Value", clean(kind.kind)
    yield "Total", amount(tree.root.value, kind)
    if tree.compared:
        yield "Total before", amount(tree.root.base, kind)
    if profile.duration_s is not None:
        yield "Profiled for", units.duration(profile.duration_s)
    if profile.started_at is not None:
        yield "Started", profile.started_at.strftime("%Y-%m-%d %H:%M:%S UTC")


def _data(tree: CallTree) -> dict[str, Any]:
    """Return the input of the script: frames, and a flat list of nodes (frame, depth, value, base), callers first."""
    places: dict[tuple[str, str, str], int] = {}
    nodes: list[int] = []
    for depth, node in tree.nodes():
        frame = node.frame
        where = frame.file or frame.module or ""
        hue = EVERYTHING if depth == 0 else tone(frame)
        place = places.setdefault((clean(frame.label), clean(where), hue.name), len(places))
        nodes += [place, depth, node.value, node.base] if tree.compared else [place, depth, node.value]
    return {
        "compared": tree.compared,
        "per_second": PER_SECOND.get(tree.value_type.unit),
        "unit": clean(tree.value_type.unit),
        "frames": [list(frame) for frame in places],
        "nodes": nodes,
    }
