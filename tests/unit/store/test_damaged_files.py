"""Damaged, hostile and removed files of a store: each error names the file and what to do."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import pytest

import benchkit
from benchkit.errors import InputError
from benchkit.run.judge import rebuild_tables
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


def overwrite_inside(path: Path, seed: int) -> None:
    """Replace bytes inside a file, and keep its beginning and its end."""
    content = bytearray(path.read_bytes())
    start = random.Random(seed).randrange(8, len(content) - 600)  # noqa: S311 - repeatable, and no secret
    content[start : start + 16] = bytes(byte ^ 0xFF for byte in content[start : start + 16])
    path.write_bytes(content)


@pytest.mark.parametrize("size", [0, 700])
def test_a_truncated_table_is_named(store: Store, size: int) -> None:
    path = table_file(store)
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(InputError) as caught:
        benchkit.load("trials", store=store.path)
    assert str(path) in str(caught.value)
    assert "`benchkit results reparse RUN`" in str(caught.value)


@pytest.mark.parametrize("seed", range(5))
def test_overwritten_bytes_inside_a_table_are_noticed(store: Store, seed: int) -> None:
    path = table_file(store)
    before = benchkit.load("trials", store=store.path, run_id="r1")
    overwrite_inside(path, seed)
    try:
        after = benchkit.load("trials", store=store.path, run_id="r1")
    except InputError as error:
        assert str(path) in str(error)  # noqa: PT017 - bytes that no reader needs may change unnoticed
    else:
        assert after.equals(before)


@pytest.mark.parametrize("content", [b"", b"not zstd", compress(b"x" * 100_000)[:12]])
def test_a_damaged_compressed_file_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "load.txt.zst"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"load\.txt\.zst: the raw file is damaged"):
        decompress(path)


@pytest.mark.parametrize("name", ["x/../../../evil/y", "..", "", "Small", "a b", "/etc/x"])
def test_a_scenario_name_in_a_stored_manifest_leads_nowhere_else(store: Store, name: str) -> None:
    path = store.run("r1").path / "manifest.json"
    document = json.loads(path.read_bytes())
    document["scenario"]["name"] = name
    path.write_text(json.dumps(document))
    outside = sorted(store.path.parent.parent.rglob("*"))
    with pytest.raises(InputError):
        rebuild_tables(store, store.run("r1"))
    assert sorted(store.path.parent.parent.rglob("*")) == outside


@pytest.mark.parametrize("name", ["../r2", "..", "", "[a-z]*", "a/b", "1"])
def test_a_manifest_with_another_run_id_is_refused(store: Store, name: str) -> None:
    path = store.run("r1").path / "manifest.json"
    path.write_text(path.read_text().replace('"run_id": "r1"', f'"run_id": "{name}"'))
    with pytest.raises(InputError, match=r"manifest\.json"):
        store.run("r1").manifest()


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


@pytest.mark.parametrize("run_id", ["r2099", "../../x", "", "r"])
def test_an_unknown_run_is_an_error(store: Store, run_id: str) -> None:
    with pytest.raises(InputError, match="no run"):
        benchkit.load("trials", store=store.path, run_id=run_id)
