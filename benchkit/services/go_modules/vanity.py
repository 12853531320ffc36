"""The vanity-import server: which repository stands behind an import path of one's own."""

from __future__ import annotations

from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, StringConstraints, model_validator
from ruamel.yaml import YAML

from benchkit.document import SourceMap, read_document
from benchkit.errors import FieldError
from benchkit.models.base import Frozen
from benchkit.models.levels import Name
from benchkit.resources import BACKENDS
from benchkit.services.backend import Backend, File, GoSource, Preparation, Process, Request, Service, ServiceOptions
from benchkit.services.endpoint import Endpoint
from benchkit.services.go_modules.ssh import repository_url

SOURCES = BACKENDS / "gomodules"
EXECUTABLE = 0o755
CHECK_S = 10.0

HERE = "vcs:"
"""What a repository begins with that is on the stack's own git server: `vcs:module1`."""

PLACEHOLDER = "{name}"

VersionControl = Literal["bzr", "fossil", "git", "hg", "svn"]
"""What the go command takes (https://go.dev/ref/mod#vcs-find)."""

ImportPath = Annotated[str, StringConstraints(pattern=r"^(/|(/[A-Za-z0-9._~-]+)+)$")]
ImportPattern = Annotated[str, StringConstraints(pattern=r"^(/[A-Za-z0-9._~-]+)*/[A-Za-z0-9._~-]*\*[A-Za-z0-9._~-]*$")]
Host = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]*(\.[a-z0-9][a-z0-9-]*)+(:[0-9]+)?$")]


class Repository(Frozen):
    """Where a module comes from."""

    repo: Annotated[str, StringConstraints(pattern=r"^[!-~]+$")]
    vcs: VersionControl | None = Field(default=None, description="absent: git where the URL names a known server")
    display: str | None = None


class VanityFile(Frozen):
    """The published vanity.yaml, and patterns."""

    host: Host | None = Field(default=None, description="of the import paths; absent: the one that is asked for")
    cache_max_age: Annotated[int, Field(strict=True, ge=0)] | None = None
    paths: Mapping[ImportPath, Repository] = Field(default_factory=dict)
    patterns: Mapping[ImportPattern, Repository] = Field(
        default_factory=dict, description=f"one * in the last element, and {PLACEHOLDER} in the repository"
    )

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        if not (self.paths or self.patterns):
            raise ValueError("neither paths nor patterns: there is nothing to answer with")
        for pattern, repository in self.patterns.items():
            if repository.repo.count(PLACEHOLDER) != 1:
                raise ValueError(f"patterns: {pattern}: repo: {PLACEHOLDER} has to stand in it once")
        names = sorted(self.patterns)
        for i, one in enumerate(names):
            for other in names[i + 1 :]:
                if overlap(one, other):
                    raise ValueError(f"patterns: {one} and {other} overlap: a path could mean either")
        return self


class VanityOptions(ServiceOptions):
    """A vanity-import server with its list in the scenario, or in a vanity.yaml beside it."""

    file: str | None = Field(default=None, description="a vanity.yaml, relative to the scenario's file")
    imports: VanityFile | None = Field(default=None, description="what would stand in it")
    vcs: Name | None = Field(default=None, description=f"the git server that repositories `{HERE}…` are on")

    @model_validator(mode="after")
    def _one_list(self) -> Self:
        if (self.file is None) == (self.imports is None):
            raise ValueError("needs one of file and imports")
        return self


def render(request: Request) -> Service:
    """A Go server of ours with its vanity.yaml."""
    options, place = request.options, request.place
    if not isinstance(options, VanityOptions) or options.imports is None:
        raise TypeError(f"{request.name}: options of another backend, or not settled")
    binary, config = place.folder / "vanity", place.folder / "vanity.yaml"
    vcs = None if options.vcs is None else request.peers[options.vcs]
    argv = (str(binary), "-listen", request.endpoint.authority, "-config", str(config))
    cpus = place.take_cpus(options.cpus, "cpus")
    return Service(
        name=request.name,
        backend="vanity",
        host=place.host,
        folder=place.folder,
        files=(
            File(binary, GoSource(SOURCES, place.goos, place.goarch, package="./vanity"), EXECUTABLE),
            File(config, vanity_yaml(options.imports, vcs).encode()),
        ),
        checks=(),
        process=Process(argv, cpus, place.take_files(options.nofile), {"GOMAXPROCS": str(len(cpus))}),
        endpoint=request.endpoint,
        preparations=(Preparation((*argv, "-check"), CHECK_S),),
        parallelism=len(cpus),
    )


def vanity_yaml(imports: VanityFile, vcs: Endpoint | None) -> str:
    """The file as the server reads it. Raises FieldError for a repository on a git server that is not named."""

    def written(repository: Repository) -> dict[str, Any]:
        data = repository.model_dump(exclude_none=True)
        if repository.repo.startswith(HERE):
            if vcs is None:
                raise FieldError(
                    "vcs", f"is missing: {repository.repo} is on the stack's git server", hint="name its service"
                )
            data["repo"] = repository_url(vcs, repository.repo.removeprefix(HERE))
            data.setdefault("vcs", "git")
        return data

    data = imports.model_dump(exclude_none=True, exclude={"paths", "patterns"})
    for kind in ("paths", "patterns"):
        if listed := getattr(imports, kind):
            data[kind] = {at: written(repository) for at, repository in listed.items()}
    text = StringIO()
    YAML(typ="safe", pure=True).dump(data, text)
    return text.getvalue()


def overlap(one: str, other: str) -> bool:
    """Whether a path, or one above it, could match both patterns."""
    return all(_elements_overlap(a, b) for a, b in zip(one.split("/"), other.split("/"), strict=False))


def _elements_overlap(one: str, other: str) -> bool:
    start, star, end = one.partition("*")
    other_start, other_star, other_end = other.partition("*")
    if star and other_star:
        starts = start.startswith(other_start) or other_start.startswith(start)
        return starts and (end.endswith(other_end) or other_end.endswith(end))
    if star or other_star:
        (start, end), text = ((start, end), other) if star else ((other_start, other_end), one)
        return len(text) > len(start) + len(end) and text.startswith(start) and text.endswith(end)
    return one == other


def _settle(options: ServiceOptions, source: SourceMap) -> ServiceOptions:
    """Read the vanity.yaml that the scenario names."""
    if not isinstance(options, VanityOptions) or options.file is None:
        return options
    path = Path(source.origin(("file",)).source).parent / options.file
    return options.model_copy(update={"imports": read_document(path).validated(VanityFile)})


def _tied_to(options: ServiceOptions) -> tuple[str, ...]:
    return (options.vcs,) if isinstance(options, VanityOptions) and options.vcs else ()


VANITY = Backend("vanity", VanityOptions, render, settle=_settle, tied_to=_tied_to)
