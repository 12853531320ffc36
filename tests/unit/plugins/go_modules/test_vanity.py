from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from benchkit.errors import InputError
from benchkit.scenario.read import read_experiment
from benchkit.services.placement import ServicePlacement
from benchkit.services.rendering import render_services
from benchkit.services.service import Service

SCENARIO = """\
name: small
title: Small
question: Which?
roles: {sut: {}, load: {}}
stacks:
  one:
    entry: vanity
    services:
      vcs: {backend: git-ssh, listen: 2222, repositories: {module1: {versions: 1}}}
      vanity:
        backend: vanity
        listen: 8080
        vcs: vcs
        imports:
          host: mycompany.com
          paths:
            /go/module1: {repo: "vcs:elsewhere/module1", vcs: git}
            /go/old: {repo: "https://github.com/example/old"}
          patterns:
            /go/*: {repo: "vcs:{name}"}
load: {tool: wrk, connections: 4, duration_s: 1}
blocks: 1
"""


def services(tmp_path: Path, place: Callable[..., ServicePlacement], *changes: tuple[str, str]) -> tuple[Service, ...]:
    text = SCENARIO
    for old, new in changes:
        assert text.count(old) == 1
        text = text.replace(old, new)
    path = tmp_path / "small.yaml"
    path.write_text(text)
    experiment = read_experiment(str(path))
    return render_services(experiment.cells[0].services, lambda service: place(service.name))


def vanity_document(service: Service) -> dict[str, object]:
    content = next(file.content for file in service.files if file.path.name == "vanity.yaml")
    assert isinstance(content, bytes)
    document: dict[str, object] = YAML(typ="safe").load(content)
    return document


def test_repositories_of_the_stack_get_their_urls(tmp_path: Path, place: Callable[..., ServicePlacement]) -> None:
    _, vanity = services(tmp_path, place)
    assert vanity_document(vanity) == {
        "host": "mycompany.com",
        "paths": {
            "/go/module1": {"repo": "ssh://bench@10.0.0.1:2222/elsewhere/module1", "vcs": "git"},
            "/go/old": {"repo": "https://github.com/example/old"},
        },
        "patterns": {"/go/*": {"repo": "ssh://bench@10.0.0.1:2222/{name}", "vcs": "git"}},
    }
    assert [command.argv[-1] for command in vanity.setup_commands] == ["-check"]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("        vcs: vcs\n", "", "small.yaml:10: stacks.one.services.vanity.vcs: is missing: vcs:elsewhere/module1 is on the stack's git server"),
        ("        vcs: vcs\n", "        vcs: other\n", "no other service 'other' in this stack"),
    ],
)  # fmt: skip
def test_invalid_options_name_file_line_and_field(
    tmp_path: Path, place: Callable[..., ServicePlacement], old: str, new: str, expected: str
) -> None:
    with pytest.raises(InputError) as error:
        services(tmp_path, place, (old, new))
    assert expected in str(error.value)
