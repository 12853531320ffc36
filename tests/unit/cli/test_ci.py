"""The shipped jobs for continuous integration: their shell steps run for real, with a bare repository as the remote."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from benchkit.files import shipped
from tests.support.paths import TESTS

CI = shipped("configs") / "ci"
SCRIPT = CI / "benchkit-ci.sh"
SERVER = TESTS / "support/servers/plain.js"


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


def test_every_setting_that_a_job_gives_is_one_of_the_script() -> None:
    known = set(re.findall(r"^#   (BENCHKIT_\w+)", SCRIPT.read_text(), re.MULTILINE))
    used = set(re.findall(r"\$\{?(BENCHKIT_\w+)", SCRIPT.read_text()))
    assert used <= known
    own = {"BENCHKIT_PACKAGE", "BENCHKIT_TOKEN"}
    for name in ("action.yml", "gitlab-ci.yml"):
        given = set(re.findall(r"\b(BENCHKIT_\w+):", (CI / name).read_text()))
        assert len(given) >= 5
        assert given - own <= known, name


def test_the_workflow_gives_the_inputs_of_the_action_and_gitlab_jobs_call_steps_that_exist() -> None:
    yaml = YAML(typ="safe")
    action, workflow, gitlab = (yaml.load(CI / name) for name in ("action.yml", "workflow.yml", "gitlab-ci.yml"))
    inputs = action["inputs"]
    given = workflow["jobs"]["benchkit"]["steps"][-1]["with"]
    required = {name for name, each in inputs.items() if each.get("required")}
    assert required <= set(given) <= set(inputs)
    text = (CI / "action.yml").read_text()
    assert set(re.findall(r"inputs\.(\w+)", text)) == set(inputs)
    assert all(step.get("shell") == "bash" for step in action["runs"]["steps"] if "run" in step)
    steps = {line.rsplit(maxsplit=1)[-1] for job in gitlab.values() for line in job.get("script", ())}
    assert steps == {"compare", "record"}
