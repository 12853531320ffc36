"""Stores below a URL, on a real S3 server and a real web server: read like folders, and published to without loss."""

from __future__ import annotations

import functools
import hashlib
import http.server
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

import benchkit
from benchkit.errors import BenchkitError, InputError
from benchkit.models.run import RunStatus
from benchkit.store.durable_files import PARTIAL
from benchkit.store.journal import RunEnded
from benchkit.store.layout import checksums_path
from benchkit.store.remote_store import RemoteStore
from benchkit.store.store import Store, open_store
from benchkit.store.transfer import pull, push
from benchkit.store.verification import write_checksums
from tests.support.commands import Done, command
from tests.support.paths import ROOT
from tests.support.report.fixtures import keep, synthetic_run
from tests.support.s3 import BUCKET, KEY, NO_CONFIGURATION, S3, SECRET, s3_server

RECORDED = ROOT / "notebooks" / "recorded"


@pytest.fixture(scope="module")
def server() -> Iterator[S3]:
    """The S3 server of all tests here."""
    with s3_server() as served:
        yield served


@pytest.fixture
def s3(server: S3, monkeypatch: pytest.MonkeyPatch) -> S3:
    """The server, for clients in this process and its children, with no request counted yet."""
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    server.requests.clear()
    return server


@pytest.fixture
def url(tmp_path: Path) -> str:
    """URL of a store of the test's own."""
    return f"s3://{BUCKET}/{tmp_path.name}"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A folder with one ended run, `latest`, with raw files, tables and checksums."""
    return ended(tmp_path / "store")


def ended(path: Path, seed: int = 7, run_id: str = "r1", status: RunStatus = "done") -> Store:
    """Store a synthetic run with some raw files, of a content that differs with the seed."""
    synthetic = synthetic_run(seed=seed)
    manifest = synthetic.manifest.model_copy(update={"run_id": run_id, "status": status})
    made = keep(replace(synthetic, manifest=manifest), path)
    run = made.run(run_id)
    with run.journal() as journal:
        journal.append(RunEnded(status=status))
    for number in range(5):
        run.raw(f"{run_id}.t{number}").mkdir()
        (run.raw(f"{run_id}.t{number}") / "wrk.txt").write_text(f"output {number} of {seed}")
    write_checksums(made, run)
    return made


def benchkit_command(*arguments: str, **environment: str) -> Done:
    return command(*arguments, environment={**os.environ, **environment})


def test_every_reader_finds_in_s3_what_it_finds_in_the_folder(
    s3: S3, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    local = Store(tmp_path / "recorded")
    shutil.copytree(RECORDED, local.path, ignore=shutil.ignore_patterns(f"*{PARTIAL}"))  # of a notebook that runs
    for recorded in local.runs():
        if recorded.manifest().scenario_name not in {"quickstart", "nginx-vs-go"}:
            local.remove(recorded)
    runs = [run.run_id for run in local.runs()]
    pushed = benchkit_command("results", "push", *runs, url, "--store", str(local.path), "--json")
    assert pushed.code == 0, pushed.err
    assert [each["run_id"] for each in json.loads(pushed.out)["runs"]] == runs

    for table in ("trials", "latency"):
        pd.testing.assert_frame_equal(benchkit.load(table, store=url), benchkit.load(table, store=local.path))
    pd.testing.assert_frame_equal(benchkit.runs(store=url), benchkit.runs(store=local.path))
    run = benchkit.find(scenario="quickstart", store=url)
    assert benchkit.history("quickstart", store=url) == benchkit.history("quickstart", store=local.path)
    drawn = [benchkit.history_figure("quickstart", store=where) for where in (url, local.path)]
    assert drawn[0].chart.caption == drawn[1].chart.caption
    there, here = (benchkit_command("compare", run[:-2], "--store", where) for where in (url, str(local.path)))
    assert there == here
    assert there.code == 0
    pd.testing.assert_frame_equal(benchkit.figures(run, store=url), benchkit.figures(run, store=local.path))
    monkeypatch.chdir(tmp_path)
    assert open_store(url).run(run).report.resolve() == tmp_path / f"report-{run}", "it is not in the temporary copy"
    fetched = benchkit_command("results", "pull", *runs, url, "--store", "fetched")
    assert fetched.code == 0, fetched.err
    assert benchkit_command("results", "check", "--store", "fetched").out.count("intact") == len(runs)
    written = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    for content in (*written, *s3.objects(tmp_path.name).values()):
        assert SECRET.encode() not in content
        assert KEY.encode() not in content


def test_other_content_under_the_same_id_is_refused_and_named(s3: S3, url: str, store: Store, tmp_path: Path) -> None:
    other = ended(tmp_path / "other", seed=8)
    push(store, store.run("r1"), RemoteStore(url))
    before = s3.objects(tmp_path.name)
    refused = benchkit_command("results", "push", "r1", url, "--store", str(other.path))
    assert refused.code == 2
    assert f"{url}/runs/r1/" in refused.err
    assert "the store has this run id with other content" in refused.err
    with pytest.raises(InputError, match="other content"):
        pull(RemoteStore(url), "r1", other)
    assert s3.objects(tmp_path.name) == before


@pytest.mark.parametrize("status", ["running", "interrupted"])
def test_a_run_that_has_not_ended_is_refused(s3: S3, url: str, tmp_path: Path, status: RunStatus) -> None:
    made = ended(tmp_path / "store", status=status)
    with pytest.raises(InputError, match="the run has not ended"):
        push(made, made.run("r1"), RemoteStore(url))
    assert s3.requests == []


def test_damaged_files_are_neither_pushed_nor_pulled_nor_read(s3: S3, url: str, store: Store, tmp_path: Path) -> None:
    raw = store.run("r1").raw("r1.t1") / "wrk.txt"
    content = raw.read_text()
    raw.write_text("something else")
    with pytest.raises(InputError, match="a file of the run differs from its checksum"):
        push(store, store.run("r1"), RemoteStore(url))
    raw.write_text(content)
    push(store, store.run("r1"), RemoteStore(url))

    damaged = f"{tmp_path.name}/{raw.relative_to(store.path)}"
    s3.client().put_object(Bucket=BUCKET, Key=damaged, Body=b"bit rot")
    target = Store(tmp_path / "target")
    with pytest.raises(InputError, match="differs from its checksum") as refused:
        pull(RemoteStore(url), "r1", target)
    assert refused.value.where == f"s3://{BUCKET}/{damaged}"
    assert target.runs() == []
    with pytest.raises(InputError, match="differs from its checksum"):
        open_store(url).run("r1").raw_file("r1.t1", "wrk.txt")


@pytest.mark.parametrize(
    "place",
    [
        "runs/r1/report/report.html",
        "runs/r1/raw/conftest.py",
        "runs/r1/raw/r1.t0/.netrc",
        "runs/r2/manifest.json",
        "runs/r1/../../x.txt",
        "tables/trials/scenario=other/run_id=r1/trials.parquet",
        "tables/trials/scenario=synthetic/run_id=r1%2f/trials.parquet",
        "tables/nothing/scenario=synthetic/run_id=r1/trials.parquet",
    ],
)
def test_only_files_that_a_run_has_are_fetched(store: Store, tmp_path: Path, place: str) -> None:
    url, shared = f"file://{tmp_path}/shared", tmp_path / "shared"
    push(store, store.run("r1"), RemoteStore(url))
    (shared / place).parent.mkdir(parents=True, exist_ok=True)
    (shared / place).write_text("planted")
    with (shared / checksums_path("r1")).open("a") as claim:
        claim.write(f"{hashlib.sha256(b'planted').hexdigest()}  {place}\n")
    target = Store(tmp_path / "target")
    with pytest.raises(InputError):
        pull(RemoteStore(url), "r1", target)
    assert [path for path in target.path.rglob("*") if path.is_file()] == []


def test_failures_become_messages(s3: S3, url: str, store: Store) -> None:
    def failed(*arguments: str, **environment: str) -> tuple[int | None, str]:
        done = benchkit_command(*arguments, **environment)
        assert "Traceback" not in done.err
        assert SECRET not in done.err
        return done.code, done.err

    to_nowhere = ("results", "push", "r1", "s3://nobody-has-it/x", "--store", str(store.path))
    code, text = failed(*to_nowhere)
    assert (code, "s3://nobody-has-it/x: cannot write to the store: The specified bucket does not exist" in text) == (
        1,
        True,
    )
    code, text = failed("results", "list", "--store", url)
    assert (code, f"{url}: there is no store here" in text) == (2, True)
    without = {**os.environ, **NO_CONFIGURATION}
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        del without[name]
    done = command("results", "list", "--store", url, environment=without)
    assert (done.code, "credentials" in done.err) == (1, True)
    code, text = failed("results", "list", "--store", url, AWS_ENDPOINT_URL="http://127.0.0.1:9")
    assert (code, f"{url}: cannot access the store" in text) == (1, True)

    bare = "import sys; sys.modules['s3fs'] = None; from benchkit.cli.app import main; main()"
    program = [sys.executable, "-c", bare, "results", "list", "--store", url]
    assert "pip install 'benchkit[s3]'" in subprocess.run(program, capture_output=True, text=True, check=False).stderr

    push(store, store.run("r1"), RemoteStore(url))
    forbid = {"Effect": "Deny", "Principal": "*", "Action": "s3:GetObject", "Resource": f"arn:aws:s3:::{BUCKET}/*"}
    policy = {"Version": "2012-10-17", "Statement": [forbid]}
    s3.client().put_bucket_policy(Bucket=BUCKET, Policy=json.dumps(policy))
    try:
        code, text = failed("compare", "r1", "--store", url)
    finally:
        s3.client().delete_bucket_policy(Bucket=BUCKET)
    assert (code, f"{url}: cannot access the store" in text) == (1, True)


def test_a_web_server_is_read_and_never_written(store: Store) -> None:
    handler = functools.partial(_Quiet, directory=str(store.path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as served:
        threading.Thread(target=served.serve_forever, daemon=True).start()
        try:
            url = f"http://127.0.0.1:{served.server_port}"
            assert benchkit.compare("r1", store=url) == benchkit.compare("r1", store=store.path)
            assert benchkit.find("latest", store=f"{url}/") == "r1"
            with pytest.raises(BenchkitError, match="cannot access the store"):
                push(store, store.run("r1"), RemoteStore(f"{url}/new"))
        finally:
            served.shutdown()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    """Server of a folder that logs nothing."""

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("s3://key:secret@bucket/x", "has no password"),
        ("https://host/x?X-Amz-Signature=secret", "has no password, query"),
        ("nothing://bucket/x", "no access to nothing:// here"),
    ],
)
def test_a_url_that_cannot_be_used_is_refused_without_its_secrets(url: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as refused:
        benchkit.runs(store=url)
    assert "secret" not in str(refused.value)
