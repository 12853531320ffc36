"""`benchkit parse` and `benchkit plugins`: outputs of load tools, and parts from other packages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from benchkit.cli.console import input_name, print_json, print_table, read_input, say
from benchkit.cli.options import Json
from benchkit.units import bytes_per_s, count, rate, seconds, share, size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchkit.models.load_result import LoadResult


def parse(
    tool: Annotated[
        str, typer.Argument(help="The load tool that wrote it, or auto to recognise it; an unknown name lists all.")
    ],
    file: Annotated[str, typer.Argument(help="Its output, or - for stdin.")],
    json: Json = False,
) -> None:
    """Read one output of a load tool; print its figures, and contradictions between them."""
    from benchkit.loadtools.findings import find
    from benchkit.loadtools.formats import read_run
    from benchkit.loadtools.text import decode

    text, command = decode(read_input(file)), f"benchkit parse {{tool}} {file}"
    result, load = read_run(tool, text, where=input_name(file), command=command)
    findings = find(result, load)
    if json:
        print_json({**result.model_dump(mode="json"), "findings": [each.model_dump(mode="json") for each in findings]})
        return
    print_table((result.tool, ""), _rows(result))
    for finding in findings:
        print(f"{finding.severity}, {finding.code}: {finding.text}")
    for note in result.notes:
        say(f"{note.code}: {note.message}")


def _rows(result: LoadResult) -> Iterator[tuple[str, str]]:
    latency = result.latency
    times = {
        "min": latency.min_s,
        "mean": latency.mean_s,
        "stdev": latency.stdev_s,
        **{f"p{percentile}": value for percentile, value in latency.percentiles.items()},
        "max": latency.max_s,
    }
    figures = {
        "duration": (result.duration_s, seconds),
        "requests": (result.requests, count),
        "requests/s": (result.rps, rate),
        "answered/s": (result.answered_rps, rate),
        "connections": (result.connections, count),
        "threads": (result.threads, count),
        "virtual users": (result.users, count),
        "bytes": (result.bytes_total, size),
        "bytes/s": (result.bytes_per_s, bytes_per_s),
        **{f"latency {name}": (value, seconds) for name, value in times.items()},
        "latency step": (latency.resolution_s, seconds),
        **{f"errors {kind}": (number, count) for kind, number in result.errors},
        **{f"status {code}": (number, count) for code, number in result.status.items()},
        "non-2xx": (result.non_2xx, count),
        "failed": (result.failed, count),
        "aborted at the end": (result.aborted, count),
        "dropped": (result.dropped, count),
        "failed by length only": (result.failed_length, count),
        "availability": (result.availability, share),
    }
    texts = {"version": result.tool_version, "target": result.target}
    if (negotiated := result.negotiated) is not None:
        texts |= {"protocol": negotiated.protocol, "TLS version": negotiated.tls_version}
        texts |= {"cipher": negotiated.cipher, "certificate's key": negotiated.key}
    yield from ((name, text) for name, text in texts.items() if text is not None)
    yield "complete", "yes" if result.complete else "no"
    for name, (value, shown) in figures.items():
        if value is not None:
            yield name, shown(value)


def plugins(*, json: Json = False) -> None:
    """List backends, tools, output formats, checks, diagnoses and figures from other packages, even unusable ones."""
    from dataclasses import asdict
    from itertools import chain

    from benchkit.comparison.diagnoses.rules import DIAGNOSES
    from benchkit.judge.checks.registry import CHECKS
    from benchkit.loadtools.formats import FORMATS
    from benchkit.loadtools.registry import TOOLS
    from benchkit.report.figures.registry import FIGURES
    from benchkit.services.registry import BACKENDS

    kinds = (BACKENDS, TOOLS, FORMATS, CHECKS, DIAGNOSES, FIGURES)
    every = chain.from_iterable(registry.plugins for registry in kinds)
    found = [plugin for plugin in every if plugin.package != "benchkit"]  # benchkit's own plugins register here too
    if json:
        print_json([asdict(plugin) for plugin in found])
        return
    for plugin in found:
        print(f"{plugin.group.removeprefix('benchkit.'):<14} {plugin.name:<20} {plugin.package} {plugin.version}")
        if plugin.error is not None:
            print(f"  cannot be used: {plugin.error}")
    if not found:
        print("no plugins: no installed package has entry points for benchkit")
