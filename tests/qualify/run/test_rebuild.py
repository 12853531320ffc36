"""Tables rebuilt from raw outputs: the same bytes each time."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from benchkit.errors import InputError
from benchkit.plugins.foreign.imported import OutputFile, import_run, read_cell
from benchkit.run.rebuild import rebuild_run
from benchkit.store.store import Store
from tests.support.many_runs import copy_run, digest, remove_tables
from tests.support.paths import TESTS

OUTPUTS = TESTS / "fixtures" / "load"
RUNS = 3


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Runs with real outputs of wrk as raw files."""
    made = Store(tmp_path_factory.mktemp("store"))
    at = datetime(2026, 1, 31, tzinfo=UTC)
    content = (OUTPUTS / "wrk" / "v410-latency-version.txt").read_bytes()
    files = [OutputFile(f"{number}.txt", content, at) for number in range(2)]
    cell = read_cell("wrk", files, {"server": "go"}, {"connections": 8})
    first = import_run(made, "elsewhere", [cell], {}, interleaved=True)
    for number in range(RUNS - 1):
        copy_run(made, first.run.run_id, f"copy{number}")
    return made


def test_rebuilt_tables_have_the_same_bytes(store: Store) -> None:
    digests = set()
    for _ in range(2):
        remove_tables(store)
        assert [rebuild_run(store, run) for run in store.runs()] == [2] * RUNS
        digests.add(digest(store))
    assert len(digests) == 1


def test_a_run_in_use_and_a_damaged_one_stay_as_they_were(store: Store) -> None:
    in_use, damaged = store.runs()[:2]
    (raw,) = list((damaged.path / "raw").glob("*/*.txt"))[:1]
    content = raw.read_bytes()
    raw.write_bytes(b"damaged")
    before = digest(store)
    try:
        with in_use.locked(), pytest.raises(InputError, match="another benchkit process writes to this run"):
            rebuild_run(store, in_use)
        with pytest.raises(InputError, match="differs from its checksum"):
            rebuild_run(store, damaged)
    finally:
        raw.write_bytes(content)
    assert digest(store) == before
