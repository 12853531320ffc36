from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from benchkit.errors import InputError
from benchkit.plugins.go_modules.vanity import overlap
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


def test_a_vanity_file_of_govanityurls_is_read(tmp_path: Path, place: Callable[..., ServicePlacement]) -> None:
    (tmp_path / "vanity.yaml").write_text(
        "host: mycompany.com\ncache_max_age: 60\npaths:\n  /go/module1:\n    repo: ssh://admin@10.0.0.9/module1\n    vcs: git\n"
        "  /old/:\n    repo: https://github.com/example/old\n"
    )
    start = SCENARIO.index("        imports:")
    imports = SCENARIO[start : SCENARIO.index("load: {tool")]
    _, vanity = services(tmp_path, place, (imports, "        file: vanity.yaml\n"))
    assert vanity_document(vanity)["paths"] == {
        "/go/module1": {"repo": "ssh://admin@10.0.0.9/module1", "vcs": "git"},
        "/old/": {"repo": "https://github.com/example/old"},
    }
    (tmp_path / "vanity.yaml").write_text(
        "paths:\n  /go/module1:\n    repo: ssh://admin@10.0.0.9/module1\n    vcs: cvs\n"
    )
    with pytest.raises(InputError) as error:
        services(tmp_path, place, (imports, "        file: vanity.yaml\n"))
    assert str(error.value) == (
        f"{tmp_path}/vanity.yaml:4: paths./go/module1.vcs: found 'cvs'; allowed: 'bzr', 'fossil', 'git', 'hg' or 'svn'"
    )


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("vcs: git}", "vcs: cvs}", "small.yaml:17: stacks.one.services.vanity.imports.paths./go/module1.vcs: found 'cvs'"),
        ('/go/*: {repo: "vcs:{name}"}', '/go/*: {repo: "vcs:{name}"}, /go/lib-*: {repo: "vcs:{name}"}', "/go/* and /go/lib-* overlap"),
        ('"vcs:{name}"', '"vcs:name"', "needs {name} exactly once"),
        ("/go/*:", "/*/go:", "patterns./*/go"),
        ("/go/old:", "go/old:", "paths.go/old"),
        ("        vcs: vcs\n", "", "small.yaml:10: stacks.one.services.vanity.vcs: is missing: vcs:elsewhere/module1 is on the stack's git server"),
        ("        vcs: vcs\n", "        vcs: other\n", "no other service 'other' in this stack"),
        ("        imports:\n", "        file: x.yaml\n        imports:\n", "needs either file or imports"),
        ("host: mycompany.com", "host: my company", "imports.host: found 'my company'"),
    ],
)  # fmt: skip
def test_invalid_options_name_file_line_and_field(
    tmp_path: Path, place: Callable[..., ServicePlacement], old: str, new: str, expected: str
) -> None:
    if "overlap" in expected:
        new = '/go/*: {repo: "vcs:{name}"}\n            /go/lib-*: {repo: "vcs:{name}"}'
    with pytest.raises(InputError) as error:
        services(tmp_path, place, (old, new))
    assert expected in str(error.value)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("/go/*", "/go/lib-*", True),
        ("/go/a*", "/go/*z", True),
        ("/go/*", "/go/x/*", True),
        ("/go/*", "/*", True),
        ("/go/a*", "/go/b*", False),
        ("/go/*a", "/go/*b", False),
        ("/go/*", "/team/*", False),
        ("/go/a*", "/go/b/*", False),
        ("/go/lib-*", "/go/lib/*", False),
    ],
)
def test_overlapping_patterns(one: str, other: str, *, expected: bool) -> None:
    assert overlap(one, other) is overlap(other, one) is expected
