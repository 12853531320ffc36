"""The table of a comparison: numbers that cannot be used are shown in brackets."""

from __future__ import annotations

from rich.console import Console

from benchkit.cli.versus_display import results_table
from benchkit.comparison.ratios import Ratio
from benchkit.comparison.server_results import ServerResult, has_answer
from tests.support.snapshots import Snapshot

RATIO = Ratio(metric="rps", cell_id="b", baseline="a", blocks=0, ratio=0.5, is_unusable=True)


def test_numbers_that_cannot_be_used_are_in_brackets(snapshot: Snapshot) -> None:
    results = (
        ServerResult(cell_id="a", label="a", rps=1000.0, latency_p99_s=0.004),
        ServerResult(cell_id="b", label="b", rps=500.0, latency_p99_s=0.008, unusable=("rps",), ratio=RATIO),
    )
    console = Console(width=80)
    with console.capture() as printed:
        console.print(results_table(results))
    snapshot(printed.get())
    assert not has_answer(results)
