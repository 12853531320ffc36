from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import benchkit
from benchkit.comparison.runs.run_data import RunData
from benchkit.comparison.trends import Scalability, connection_memory_of, scalability_of, trends_of
from benchkit.errors import InputError
from benchkit.models.base import Levels
from benchkit.stats.samples import Exclusion, Reals
from tests.support.comparison.fixtures import StoreRun, manifest_of, trials_of

LEVELS = (100, 200, 400, 1600)
GRID: list[Levels] = [{"stack": stack, "connections": n} for stack in ("go", "gnet") for n in LEVELS]


def rates(blocks: int = 10, *, power: float = -0.5, bend: float = 0.0, spread: float = 0.02) -> dict[str, Reals]:
    generator = np.random.default_rng(6)
    shared = np.exp(0.3 * generator.standard_normal(blocks))  # what a block has more or less of
    made: dict[str, Reals] = {}
    for stack in ("go", "gnet"):
        for n in LEVELS:
            x = np.log2(n / 400)
            rate = 1e4 * 2 ** ((power if stack == "go" else 0) * x + bend * x**2)
            made[f"stack={stack},connections={n}"] = rate * shared * np.exp(spread * generator.standard_normal(blocks))
    return made


def test_the_slope_of_a_power_law_is_found_with_its_interval() -> None:
    go, gnet = trends_of(RunData(manifest_of(GRID), trials_of(rates())), "rps", "connections")
    assert (go.levels, gnet.levels) == ({"stack": "go"}, {"stack": "gnet"})
    assert go.per_doubling == pytest.approx(2**-0.5, rel=0.02)
    assert go.low is not None
    assert go.high is not None
    assert go.low < 2**-0.5 < go.high < go.low * 1.05
    assert go.p is not None
    assert go.p < 1e-6
    assert gnet.per_doubling == pytest.approx(1, rel=0.02)
    assert gnet.p is not None
    assert gnet.p > 0.05
    assert [point.level for point in go.points] == [100, 200, 400, 1600]
    assert all(point.band_low < point.line < point.band_high for point in go.points)
    assert all(point.low < point.value < point.high for point in go.points)


def test_a_bend_is_noticed() -> None:
    manifest = manifest_of(GRID)
    straight, _ = trends_of(RunData(manifest, trials_of(rates())), "rps", "connections")
    bent, _ = trends_of(RunData(manifest, trials_of(rates(bend=-0.1))), "rps", "connections")
    assert straight.p_curved is not None
    assert bent.p_curved is not None
    assert bent.p_curved < 1e-3 < straight.p_curved


def test_two_levels_have_a_slope_and_no_bend() -> None:
    manifest = manifest_of([{"connections": 8}, {"connections": 16}])
    trials = trials_of({"connections=8": [10, 11, 12], "connections=16": [20, 22, 24]})
    (trend,) = trends_of(RunData(manifest, trials), "rps", "connections")
    assert trend.per_doubling == pytest.approx(2)
    assert trend.p_curved is None


def test_excluded_trials_are_in_no_line() -> None:
    manifest = manifest_of(GRID)
    out = [Exclusion(f"r1.stack=go,connections=100.b{block}", "invalid") for block in (1, 2)]
    go, gnet = trends_of(RunData(manifest, trials_of(rates()), tuple(out)), "rps", "connections")
    assert (go.blocks, gnet.blocks) == (8, 10)
    removed = [Exclusion(f"r1.stack=go,connections=400.b{block}", "invalid: errors") for block in range(1, 11)]
    go, _ = trends_of(RunData(manifest, trials_of(rates()), tuple(removed)), "rps", "connections")
    assert go.reason == (
        "too few blocks with every level: 0 of 3 needed (stack=go,connections=400: invalid: errors (10 trials))"
    )
    few, _ = trends_of(RunData(manifest, trials_of(rates(2))), "rps", "connections")
    assert few.points == ()
    assert few.reason == "too few blocks with every level: 2 of 3 needed"


def test_text_factor_has_no_trend() -> None:
    manifest = manifest_of(GRID)
    with pytest.raises(InputError, match="no trend over 'stack': its level is go, not a positive number"):
        trends_of(RunData(manifest, trials_of(rates())), "rps", "stack")
    with pytest.raises(InputError, match="its level is nothing"):
        trends_of(RunData(manifest, trials_of(rates())), "rps", "rate")
    with pytest.raises(InputError, match="no two cells differ only in it"):
        trends_of(RunData(manifest_of(GRID[:1]), trials_of(rates())), "rps", "connections")


def test_a_sequential_design_has_no_line() -> None:
    manifest = manifest_of(GRID, scenario={"design": "sequential"})
    go, _ = trends_of(RunData(manifest, trials_of(rates())), "rps", "connections")
    assert go.points == ()
    assert (go.reason or "").startswith("the design is sequential")


def test_users_have_the_trends_of_a_stored_run_as_tables(tmp_path: Path, stored: StoreRun) -> None:
    stored(manifest_of(GRID), trials_of(rates()))
    go, gnet = benchkit.trends("latest", "connections", store=tmp_path)
    assert (go.levels, gnet.levels) == ({"stack": "go"}, {"stack": "gnet"})
    frame = go.frame()
    assert list(frame.columns[:3]) == ["factor_stack", "factor_connections", "value"]
    assert frame["factor_connections"].tolist() == [100, 200, 400, 1600]
    assert (frame["band_low"] < frame["line"]).all()
    assert set(frame["factor_stack"]) == {"go"}


USL_LEVELS = (1, 2, 4, 8, 16, 32)


def fitted(
    contention: float, coherency: float, *, blocks: int = 6, bump: float = 0.0, levels: tuple[int, ...] = USL_LEVELS
) -> Scalability:
    """Return the fit of rates over connections, with noise and a level of its own in each block."""
    rng = np.random.default_rng(4)
    shared = np.exp(0.2 * rng.standard_normal(blocks))
    rates = {}
    for n in levels:
        law = 1000 * n / (1 + contention * (n - 1) + coherency * n * (n - 1))
        noise = np.exp(0.01 * rng.standard_normal(blocks) + (bump if n == levels[len(levels) // 2] else 0))
        rates[f"connections={n}"] = law * shared * noise
    manifest = manifest_of([{"connections": n} for n in levels])
    (found,) = scalability_of(RunData(manifest, trials_of(rates)), "connections")
    return found


@pytest.mark.parametrize(("contention", "coherency"), [(0.05, 0.001), (0.3, 0.0005), (0.02, 0.01)])
def test_the_parameters_of_the_law_are_found(contention: float, coherency: float) -> None:
    found = fitted(contention, coherency)
    assert found.fits
    assert found.contention is not None
    assert found.coherency is not None
    assert found.contention.value == pytest.approx(contention, rel=0.2, abs=0.01)
    assert found.coherency.value == pytest.approx(coherency, rel=0.2, abs=2e-4)
    assert found.contention.low <= found.contention.value <= found.contention.high
    assert found.peak == pytest.approx(np.sqrt((1 - contention) / coherency), rel=0.2)
    assert found.text.startswith("contention ")


def test_more_contention_is_seen_as_such() -> None:
    little, much = fitted(0.02, 0.0), fitted(0.2, 0.0)
    assert little.contention is not None
    assert much.contention is not None
    assert little.contention.high < much.contention.low


def test_rates_that_do_not_follow_the_law_are_named() -> None:
    found = fitted(0.05, 0.001, bump=0.4)
    assert not found.fits
    assert found.misfit is not None
    assert found.misfit[0] == 8
    assert found.text.startswith("the law does not fit: at 8 it is ")


def test_too_few_levels_or_blocks_have_a_reason() -> None:
    assert fitted(0.05, 0.001, levels=(1, 2, 4)).text == "no fit: 3 levels; the law needs 4"
    assert fitted(0.05, 0.001, blocks=2).text == "no fit: too few blocks with every level: 2 of 3 needed"


def test_another_factor_is_refused() -> None:
    data = RunData(manifest_of([{"stack": "a"}, {"stack": "b"}]), trials_of({"stack=a": [1], "stack=b": [1]}))
    with pytest.raises(InputError, match="no trend over 'stack'"):
        scalability_of(data, "stack")


MEMORY_LEVELS = (200, 4000, 15000)


def memory_run(blocks: int) -> RunData:
    """Return a run of 10 MB of memory and 8000 B per connection, both with noise in each block."""
    rng = np.random.default_rng(3)
    base = 1e7 * np.exp(0.1 * rng.standard_normal(blocks))
    memory = {f"connections={n}": base + 8000 * n * np.exp(0.02 * rng.standard_normal(blocks)) for n in MEMORY_LEVELS}
    trials = trials_of(memory, metric="server_memory_bytes")
    return RunData(manifest_of([{"connections": n} for n in MEMORY_LEVELS]), trials)


def test_the_memory_of_a_connection_is_without_that_of_the_server() -> None:
    (found,) = connection_memory_of(memory_run(6))
    assert found.bytes_per_connection == pytest.approx(8000, rel=0.03)
    assert found.low is not None
    assert found.high is not None
    assert found.low < 8000 < found.high
    assert found.text.startswith("7.")
    assert " KiB [" in found.text


def test_too_few_blocks_have_a_reason() -> None:
    (found,) = connection_memory_of(memory_run(2))
    assert found.text == "unknown: too few blocks with every level: 2 of 3 needed"
