"""`benchkit plugins`: backends, load tools, checks and figures from other packages."""

from __future__ import annotations

from benchkit.cli.options import Json


def plugins(*, json: Json = False) -> None:
    """List backends, load tools, checks and figures from other packages, and those that cannot be used."""
    from dataclasses import asdict
    from itertools import chain

    from benchkit.cli.console import print_json
    from benchkit.judge.registry import CHECKS
    from benchkit.loadtools.registry import TOOLS
    from benchkit.report.figures.registry import FIGURES
    from benchkit.services.registry import BACKENDS

    found = [*chain.from_iterable(registry.plugins for registry in (BACKENDS, TOOLS, CHECKS, FIGURES))]
    if json:
        print_json([asdict(plugin) for plugin in found])
        return
    for plugin in found:
        print(f"{plugin.group.removeprefix('benchkit.'):<12} {plugin.name:<20} {plugin.package} {plugin.version}")
        if plugin.error is not None:
            print(f"  cannot be used: {plugin.error}")
    if not found:
        print("no plugins: no package here has entry points of benchkit")
