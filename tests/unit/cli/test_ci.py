"""The shipped jobs for continuous integration: their settings, inputs and steps."""

from __future__ import annotations

import re

from ruamel.yaml import YAML

from benchkit.files import shipped

CI = shipped("configs") / "ci"
SCRIPT = CI / "benchkit-ci.sh"


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
