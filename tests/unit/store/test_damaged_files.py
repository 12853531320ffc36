"""Damaged, hostile and removed files of a store: each error names the file and what to do."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import benchkit
from benchkit.errors import InputError
from benchkit.store.durable_files import compress, decompress
from benchkit.store.store import Store
from tests.unit.store.test_store import stored


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a store with two runs of two trials; tests damage copies."""
    path = tmp_path_factory.mktemp("intact")
    for run_id in ("r1", "r2"):
        stored(Store(path), run_id, "small", [{"stack": "go"}, {"stack": "nginx"}])
    return path


@pytest.fixture
def store(intact: Path, tmp_path: Path) -> Store:
    """A copy of the intact store in a folder of its own."""
    return Store(shutil.copytree(intact, tmp_path / "outer" / "store"))


def table_file(store: Store, table: str = "trials", run_id: str = "r1") -> Path:
    return store.table_folder(table, "small", run_id) / f"{table}.parquet"


@pytest.mark.parametrize("size", [0, 700])
def test_a_truncated_table_is_named(store: Store, size: int) -> None:
    path = table_file(store)
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(InputError) as caught:
        benchkit.load("trials", store=store.path)
    assert str(path) in str(caught.value)
    assert "`benchkit results reparse RUN`" in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"not zstd", compress(b"x" * 100_000)[:12]])
def test_a_damaged_compressed_file_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "load.txt.zst"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"load\.txt\.zst: the raw file is damaged"):
        decompress(path)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"stdout": "wrk.txt"', '"stdout": "../../../../../../etc/shadow"'),
        ('"trial_id": "r1.b01.p01"', '"trial_id": "../r2"'),
        ('"trial_id": "r1.b01.p01"', '"trial_id": "r1.b01.p02"'),
    ],
)
def test_names_in_a_record_are_those_that_benchkit_gives(store: Store, old: str, new: str) -> None:
    path = store.run("r1").raw("r1.b01.p01") / "trial.json"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(InputError, match=r"r1\.b01\.p01/trial\.json: a file of the run is damaged"):
        store.run("r1").record("r1.b01.p01")
