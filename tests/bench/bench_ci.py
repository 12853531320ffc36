"""The shipped jobs for continuous integration: their shell steps run for real, with a bare repository as the remote."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from benchkit.files import shipped
from tests.support.paths import TESTS

CI = shipped("configs") / "ci"
SCRIPT = CI / "benchkit-ci.sh"
SERVER = TESTS / "support/servers/plain.js"
LOOPS = 300_000
"""Loops of a request of the slower server: some milliseconds, many times what a request takes otherwise."""

GATES = {3: "regressed", 4: "inconclusive"}
"""Verdict of the gate by exit code."""

Git = Callable[..., str]


@pytest.fixture
def git(tmp_path: Path) -> Git:
    """Run git in the clone of a bare repository, `tmp_path/clone`, that has one commit, tagged `v1`."""
    identity = {
        f"GIT_{who}_{what}": "benchkit@localhost" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    }
    environment = {**os.environ, **identity}
    clone = tmp_path / "clone"

    def run(*arguments: str) -> str:
        done = subprocess.run(
            ["git", *arguments], cwd=clone, env=environment, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    subprocess.run(["git", "init", "--quiet", "--bare", "--initial-branch=main", tmp_path / "remote.git"], check=True)
    subprocess.run(["git", "clone", "--quiet", tmp_path / "remote.git", clone], check=True, capture_output=True)
    (clone / "server.js").write_text(SERVER.read_text())
    run("add", "--all")
    run("commit", "--quiet", "--message", "Serve")
    run("tag", "v1")
    run("push", "--quiet", "origin", "HEAD:main", "v1")
    return run


def test_a_slower_head_fails_its_job_and_the_history_is_pushed(
    git: Git, environment: dict[str, str], tmp_path: Path
) -> None:
    clone = tmp_path / "clone"
    slower = SERVER.read_text().replace("process.argv[3]", f"{LOOPS}")
    assert slower != SERVER.read_text()
    (clone / "server.js").write_text(slower)
    git("commit", "--quiet", "--all", "--message", "Compute more")

    def step(name: str, **settings: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", SCRIPT, name],
            cwd=clone,
            env={
                **environment,
                "PATH": f"{Path(sys.executable).parent}:{environment['PATH']}",
                "BENCHKIT_BUILD": "cp server.js {out}/server.js",
                "BENCHKIT_RUN": "node server.js {port}",
                "BENCHKIT_BASE": "v1",
                "BENCHKIT_DURATION": "60",
                "BENCHKIT_OPTIONS": "--precision\n0.5\n--connections\n8\n",
                "BENCHKIT_OUT": str(tmp_path / "out"),
                **settings,
            },
            capture_output=True,
            text=True,
            check=False,
        )

    done = step("compare")
    # A machine that is busy with other tests may leave it undecided, but a tenth of the rate never passes.
    assert done.returncode in GATES, done.stderr
    verdict = GATES[done.returncode]
    summary = (tmp_path / "out" / "summary.md").read_text()
    assert done.stdout == summary
    assert summary.startswith(f"### benchkit: {verdict}")
    assert "ref=benchkit/head" in summary
    assert f"head `{git('rev-parse', '--short', 'HEAD')}`" in summary
    assert (tmp_path / "out" / "report" / "report.html").is_file()

    for _ in range(2):  # publishing twice adds nothing
        done = step("publish")
        assert done.returncode == 0, done.stderr
        assert git("ls-remote", "--heads", "origin", "benchkit-history")
        history = json.loads((tmp_path / "out" / "history.json").read_text())
        (series,) = history["series"]
        (point,) = series["points"]
        assert (series["cell_id"], series["baseline"]) == ("ref=benchkit/head", "ref=benchkit/base")
        assert point["value"] is None or point["value"] < 0.9
        assert point["commits"] == [git("rev-parse", "HEAD")] == [point["tags"]["commit"]]
    git("fetch", "--quiet", "origin", "benchkit-history")
    assert git("rev-list", "--count", "FETCH_HEAD") == "1"
    assert git("worktree", "list").count("\n") == 0
    assert git("for-each-ref", "--format=%(refname)", "refs/heads") == "refs/heads/main"
