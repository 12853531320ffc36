from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from benchkit.errors import InputError
from benchkit.plan.cells import mark_equal_cells
from benchkit.plan.model import PlannedCell, cell_record
from benchkit.plan.planner import build_services
from benchkit.services.builds import BuiltFolder, builds_of
from benchkit.services.git_source import code_state, commits_between
from benchkit.services.rendering import render_services
from tests.support.builders import planned_cells, read_scenario
from tests.unit.services.test_command import place


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    done = subprocess.run(["git", *identity, *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository whose server is the file `app`: v1, v2 with other notes, v3 broken; then `app` changes."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "server"
    folder.mkdir()
    git(folder, "init", "-q")
    for tag, files in (
        ("v1", {"app": "one", "notes": "", ".gitignore": "ignored\n"}),
        ("v2", {"notes": "more"}),
        ("v3", {"broken": ""}),
    ):
        for name, text in files.items():
            (folder / name).write_text(text)
        git(folder, "add", "--all")
        git(folder, "commit", "-qm", tag)
        git(folder, "tag", tag)
    git(folder, "rm", "-q", "broken")
    (folder / "app").write_text("changed")
    (folder / "new").write_text("untracked")
    (folder / "ignored").write_text("ignored")
    return folder


def test_the_state_of_the_code_is_its_commit_and_whether_tracked_files_differ(repository: Path, tmp_path: Path) -> None:
    state = code_state(repository)
    assert state is not None
    assert (state.commit, state.subject, state.is_modified) == (git(repository, "rev-parse", "v3"), "v3", True)
    assert state.short == f"{state.commit[:12]}+"
    git(repository, "reset", "-q", "--hard", "v2")  # untracked files stay
    clean = code_state(repository)
    assert clean is not None
    assert (clean.subject, clean.is_modified) == ("v2", False)
    assert code_state(tmp_path) is None


def plan(folder: Path, *refs: str, **options: object) -> list[PlannedCell]:
    script = "echo >> ../../built; test ! -e broken || { echo broken; exit 1; }; cp app {out}"
    app = {
        "backend": "command",
        "listen": 8080,
        "run": "./app",
        "source": {"git": "server", "ref": "$ref"},
        "build": {"run": ["sh", "-c", script]},
        **options,
    }
    stacks = {"one": {"entry": "app", "services": {"app": app}}}
    experiment = read_scenario(folder, stacks=stacks, factors={"ref": list(refs)})
    cells = [replace(cell, services=render_services(cell.spec.services, place)) for cell in planned_cells(experiment)]
    return list(mark_equal_cells(build_services(cells)))


def built_app(cell: PlannedCell) -> str:
    (content,) = builds_of(cell.services[0])
    assert isinstance(content, BuiltFolder)
    return (content.read() / "app").read_text()


def test_each_version_is_built_from_a_clean_checkout_and_its_commit_recorded(tmp_path: Path, repository: Path) -> None:
    before = git(repository, "status", "--porcelain"), git(repository, "count-objects", "-v")
    first, second, broken, worktree = plan(tmp_path, "v1", "v2", "v3", "worktree")
    assert [built_app(cell) for cell in (first, second, worktree)] == ["one", "one", "changed"]
    assert broken.unsupported is not None
    assert "app at v3: the build " in broken.unsupported
    assert "exit code 1:\n    broken" in broken.unsupported
    assert (first.same_as, second.same_as, worktree.same_as) == (None, "ref=v1", None)
    assert cell_record(second).notes == (
        "ref=v2 and ref=v1 have the same server, byte for byte: their comparison is A/A, and any difference is noise.",
    )
    records = [cell_record(cell).builds for cell in (first, second, worktree)]
    assert [each["app"].commit for each in records] == [git(repository, "rev-parse", ref) for ref in ("v1", "v2", "v3")]
    assert [each["app"].diff_sha256 is None for each in records] == [True, True, False]
    assert records[0]["app"].output_sha256 == records[1]["app"].output_sha256 != records[2]["app"].output_sha256
    assert cell_record(broken).builds == {}
    assert (git(repository, "status", "--porcelain"), git(repository, "count-objects", "-v")) == before


MANY = "mkdir -p {out}/pkg/sub && cp app {out}/ && cp app {out}/pkg/main.py && cp app {out}/pkg/sub/web.py"


@pytest.mark.parametrize(
    "run",
    [
        "./app {port}",
        "python3 --prefix {out} start",
        "python3 pkg.sub.web:app --port {port}",
        "python3 --require=./pkg/main.py -",
        "python3 -m pkg.main",
    ],
)
def test_a_command_that_names_what_was_built_starts_it(tmp_path: Path, repository: Path, run: str) -> None:
    cells = plan(tmp_path, "v1", "worktree", run=run, build={"run": ["sh", "-c", MANY]})
    assert [cell.unsupported for cell in cells] == [None, None]
    assert cells[0].same_as == cells[1].same_as is None
    assert git(repository, "rev-parse", "v1")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"run": "python3 {repository}/app {port}"}, "app.run: it names nothing that `sh -c "),
        ({"run": "python3 other {port}"}, "app.run: it names nothing"),
        (
            {"run": "python3 app {port}", "files": ["server/app"]},
            "app.files: the build writes app, and `files` puts another one",
        ),
    ],
)
def test_a_service_that_would_start_the_same_at_every_version_is_refused(
    tmp_path: Path, repository: Path, options: dict[str, object], message: str
) -> None:
    filled = {
        name: value.replace("{repository}", str(repository)) if isinstance(value, str) else value
        for name, value in options.items()
    }
    with pytest.raises(InputError) as refused:
        plan(tmp_path, "v1", "worktree", **filled)
    assert message in str(refused.value)


def test_a_version_is_built_once_by_commit_command_and_toolchain(
    tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (content,) = builds_of(plan(tmp_path, "v1", "v2")[0].services[0])
    assert isinstance(content, BuiltFolder)
    (log,) = tmp_path.glob("cache/**/built")
    assert log.read_text() == "\n" * 2
    build = BuiltFolder.build.__globals__["_build"]
    build.cache_clear()  # as in another process
    content.build()
    assert log.read_text() == "\n" * 2
    monkeypatch.setenv("CFLAGS", "-O3")
    build.cache_clear()
    content.build()
    assert log.read_text() == "\n" * 3
    assert git(repository, "rev-parse", "v1")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"source": {"git": "server", "ref": "v9"}}, "app.source.ref: "),
        ({"source": {"git": "cache", "ref": "v1"}}, "app.source.ref: "),
        ({"source": {"git": "server", "ref": "--exec"}}, "app.source.ref: found '--exec'"),
        ({"build": None}, "app.source: a version needs a build"),
        ({"build": {"run": "make", "from": ".."}}, "app.build.from: it is outside of the repository"),
    ],
)
def test_faults_name_file_line_and_field(
    tmp_path: Path, repository: Path, options: dict[str, object], message: str
) -> None:
    (tmp_path / "cache").mkdir(exist_ok=True)
    source = {"git": str(repository), "ref": "v1"}
    app = {"backend": "command", "listen": 8080, "run": "./app", "source": source, "build": {"run": "make"}, **options}
    with pytest.raises(InputError) as caught:
        read_scenario(tmp_path, stacks={"one": {"entry": "app", "services": {"app": app}}})
    assert message in str(caught.value)


def test_commits_between_two_refs_follow_first_parents(repository: Path) -> None:
    good, commits = commits_between(repository, "v1", "v3")
    assert (good.commit, good.subject) == (git(repository, "rev-parse", "v1"), "v1")
    assert [commit.subject for commit in commits] == ["v2", "v3"]
    git(repository, "stash", "-q")
    git(repository, "checkout", "-q", "-b", "side", "v1")
    git(repository, "commit", "-q", "--allow-empty", "-m", "of a branch")
    git(repository, "checkout", "-q", "--detach", "v3")
    git(repository, "merge", "-q", "--no-ff", "-m", "merged", "side")
    _, merged = commits_between(repository, "v1", "HEAD")
    assert [commit.subject for commit in merged] == ["v2", "v3", "merged"]


@pytest.mark.parametrize(
    ("good", "bad", "message"),
    [
        ("v2", "v1", "v2 is not an ancestor of v1"),
        ("v1", "v1", "v1 and v1 are the same commit"),
        ("v9", "v1", "no ref 'v9'"),
        ("--all", "v1", "no ref '--all'"),
    ],
)
def test_ends_without_commits_between_them_are_refused(repository: Path, good: str, bad: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        commits_between(repository, good, bad)
    assert message in str(caught.value)
