from __future__ import annotations

from benchkit.comparison.ratios import Ratio
from benchkit.comparison.server_results import ServerResult, has_answer


def server(name: str, *, rps: float | None = None, ratio: float | None = None) -> ServerResult:
    compared = Ratio(metric="rps", cell_id=name, baseline="a", blocks=3, ratio=ratio)
    return ServerResult(cell_id=name, label=name, rps=rps, ratio=None if name == "a" else compared)


def test_there_is_an_answer_where_some_server_has_a_ratio_or_the_only_one_its_rate() -> None:
    assert not has_answer([server("a", rps=10.0), server("b", rps=10.0)])
    assert has_answer([server("a"), server("b"), server("c", ratio=0.5)])
    assert has_answer([server("a", rps=10.0)])
    assert not has_answer([server("a")])
