"""Copies and imports on a full disk: what is said, and that the next attempt works."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchkit.errors import BenchkitError
from benchkit.store.layout import checksums_path
from benchkit.store.remote_store import RemoteStore
from benchkit.store.store import Store
from benchkit.store.transfer import pull, push
from tests.qualify.store.test_mounted_stores import fill
from tests.qualify.store.test_remote_store import ended
from tests.support.commands import command


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of four mebibytes."""
    if os.geteuid() != 0:
        pytest.skip("mounting takes root")
    folder = tmp_path / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)], check=True)
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.parametrize("free_bytes", [0, 4096, 16384])
def test_a_push_on_a_full_disk_can_be_repeated_and_claims_nothing(disk: Path, tmp_path: Path, free_bytes: int) -> None:
    store, other = ended(tmp_path / "store"), ended(tmp_path / "other", seed=8)
    url = f"file://{disk}/shared"
    filler = fill(disk, free_bytes)
    with pytest.raises(BenchkitError, match="No space left") as refused:
        push(store, store.run("r1"), RemoteStore(url))
    assert refused.value.where == url
    filler.unlink()
    assert push(other, other.run("r1"), RemoteStore(url)).is_new
    pull(RemoteStore(url), "r1", Store(tmp_path / "target"))
    assert (disk / "shared" / checksums_path("r1")).read_bytes() == (other.path / checksums_path("r1")).read_bytes()


@pytest.mark.parametrize("free_bytes", [4096, 16384, 32768])
def test_an_import_on_a_full_disk_leaves_the_store_as_it_was(disk: Path, tmp_path: Path, free_bytes: int) -> None:
    (first, second) = (tmp_path / name for name in ("first.txt", "second.txt"))
    for path, rate in ((first, "1000.00"), (second, "2000.00")):
        path.write_text(OUTPUT.replace("RATE", rate))

    def imported(*arguments: str) -> tuple[int | None, str, str]:
        done = command("results", "import", "wrk", *arguments, "--store", str(disk / "store"), environment=os.environ)
        return done.code, done.out.strip(), done.err

    code, run_id, _ = imported(str(first), "--scenario", "x", "--factor", "stack=a")
    assert code == 0
    before = files(disk / "store")
    filler = fill(disk, free_bytes)
    for arguments in (["--scenario", "x", "--factor", "stack=b"], ["--into", run_id, "--factor", "stack=b"]):
        code, _, err = imported(str(second), *arguments)
        assert (code, "No space left" in err, "resume" in err) == (1, True, False)
        assert files(disk / "store") == before
    filler.unlink()
    assert command("results", "check", "--store", str(disk / "store"), environment=os.environ).code == 0
    assert imported(str(second), "--into", run_id, "--factor", "stack=b")[0] == 0


def files(store: Path) -> list[str]:
    """Return the paths of the files of a store, without locks and logs."""
    names = (path.relative_to(store).as_posix() for path in store.rglob("*") if path.is_file())
    return sorted(name for name in names if not name.endswith((".lock", "run.log")))


OUTPUT = """\
Running 10s test @ http://127.0.0.1:8080/
  2 threads and 64 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     1.00ms    0.10ms   5.00ms   90.00%
    Req/Sec     5.00k     0.10k    6.00k    70.00%
  10000 requests in 10.00s, 1.20MB read
Requests/sec:   RATE
Transfer/sec:    122.88KB
"""
