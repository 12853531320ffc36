"""`benchkit compare`: ratios with intervals and tests, within a run or between two, and a gate on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from benchkit import units
from benchkit.cli.console import print_json, print_table
from benchkit.cli.options import Json, RunId, StoreToRead

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchkit.comparison.cell_results import ClassResult
    from benchkit.comparison.claims import ClaimResult
    from benchkit.comparison.compare import RunComparison
    from benchkit.comparison.ratios import Ratio

Format = Literal["text", "markdown"]


def compare(
    run: RunId,
    run2: Annotated[
        str | None, typer.Argument(metavar="[RUN2]", help="Another run: its cells relative to the same cells of RUN.")
    ] = None,
    *,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric",
            help="A numeric column of `trials`; repeatable. [default: rps; with a fixed rate, CPU per request; in a search, the capacity]",
        ),
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(
            metavar="CELL",
            help="Baseline of the ratios: a cell, or levels such as stack=go. With RUN2: a cell that did not change.",
        ),
    ] = None,
    gate: Annotated[
        bool, typer.Option("--gate", help="Apply a gate: exit 0 passed, 3 regressed, 4 inconclusive.")
    ] = False,
    threshold: Annotated[
        list[str] | None,
        typer.Option(
            metavar="METRIC=SHARE", help="How much worse a metric may be, such as rps=5%; implies a gate; repeatable."
        ),
    ] = None,
    form: Annotated[Format, typer.Option("--format", help="Form of the output.")] = "text",
    store: StoreToRead = None,
    json: Json = False,
) -> None:
    """Compare the cells of a run with its baseline, or the same cells in two runs."""
    from benchkit.comparison.compare import compare as compare_runs
    from benchkit.comparison.gate import parse_limits
    from benchkit.comparison.texts import markdown

    limits = parse_limits(threshold) if threshold else None
    found = compare_runs(run, run2, store=store, metrics=metric or (), baseline=baseline, thresholds=limits, gated=gate)
    if json:
        print_json(found)
    elif form == "text":
        _show(found)
    else:
        print(markdown(found), end="")
    if found.gate is not None and found.gate.exit_code:
        raise typer.Exit(found.gate.exit_code)


def _show(found: RunComparison) -> None:
    """Print the comparison: the answer, notes, then a table per metric, the statistical power, claims and gate."""
    from benchkit.comparison.texts import describe_runs
    from benchkit.models.design import explain

    if found.answer is not None:
        for sentence in (*found.answer.sentences, found.answer.trust_sentence):
            print(sentence)
        print()
    for each in found.capacities:
        print(each.sentence)
    print(describe_runs(found))
    for note in found.notes:
        print(f"! {note}")
    for metric in found.metrics:
        _show_metric([ratio for ratio in found.ratios if ratio.metric == metric], found)
        if metric in found.resolution:
            print(found.resolution[metric].detects)
    show_classes(found.classes)
    print(f"\n{explain('cell', 'block', 'suspect')}")
    if found.level != found.alpha:
        print(f"{found.decides[0].upper()}{found.decides[1:]}.")
    show_claims(found.claims)
    if found.gate is not None:
        print(f"\nGate: {found.gate.verdict}")
        for line in found.gate.lines:
            print(f"- {line.verdict}: {line.cell_id}, {line.metric}: {'; '.join((line.text, *line.notes))}")


def show_classes(classes: Sequence[ClassResult]) -> None:
    """Print the latencies of each class of requests in each cell, and their ratios."""
    from benchkit.comparison.texts import NOT_USABLE, interval, outcome
    from benchkit.models.metrics import P99

    if not classes:
        return
    print("\nClasses of requests")
    rows = []
    for each in classes:
        ratio = next((ratio for ratio in each.ratios if ratio.metric == P99), None)
        point = "" if ratio is None or ratio.ratio is None else f"{ratio.ratio:.3f}"
        mark = NOT_USABLE if each.is_unusable else ""
        shown = ("", mark) if ratio is None else (interval(ratio), outcome(ratio, brief=True))
        times = (units.seconds(each.latency_p50_s), units.seconds(each.latency_p99_s))
        rows.append((each.request_class, each.label, units.share(each.share), *times, point, *shown))
    heads = ("class", "cell", "share", "p50", "p99", "p99 ratio", "95 % interval", "difference")
    print_table(heads, rows, right=(2, 3, 4, 5, 6))


def show_claims(claims: Sequence[ClaimResult]) -> None:
    """Print the result of each claim of a run."""
    if claims:
        print("\nClaims:")
    for claim in claims:
        print(f"- {' '.join(claim.text.split())}\n  {claim.sentence}")
        for note in claim.notes:
            print(f"  ! {note}")


def _show_metric(ratios: list[Ratio], found: RunComparison) -> None:
    """Print the table of one metric; values that all rows share stand above it, so that it fits 80 columns."""
    from benchkit.comparison.texts import describe_baseline, interval, outcome, p_value, value_titles
    from benchkit.models.metrics import metric_named

    if not ratios:
        return
    metric = metric_named(ratios[0].metric)
    shown = units.ratio if ratios[0].relative_to else metric.format
    bases = list(dict.fromkeys((describe_baseline(ratio, found), shown(ratio.baseline_value)) for ratio in ratios))
    one = len(bases) == 1
    print(f"\n{metric.title} relative to {bases[0][0]} ({bases[0][1]})" if one else f"\n{metric.title}")
    base_heads = () if one else ("relative to", value_titles(found)[0])
    heads = ("cell", *base_heads, value_titles(found)[1], "ratio", "95 % interval", "p", "difference")
    rows = []
    for ratio in ratios:
        base = () if one else (describe_baseline(ratio, found), shown(ratio.baseline_value))
        point = "" if ratio.ratio is None else f"{ratio.ratio:.3f}"
        figures = (shown(ratio.value), point, interval(ratio), p_value(ratio))
        rows.append((ratio.cell_id, *base, *figures, outcome(ratio, brief=True)))
    print_table(heads, rows, right=[i for i, head in enumerate(heads) if head in {"", "ratio", "95 % interval", "p"}])
    for ratio in ratios:
        if ratio.outcome == "undecided" or ratio.exclusions:
            print(f"{ratio.cell_id}: {outcome(ratio)}")
        for note in ratio.notes:
            print(f"! {ratio.cell_id} relative to {ratio.baseline}: {note}")
