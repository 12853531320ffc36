"""The server of vanity import paths: it tells the go command which repository an import path of your own leads to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from io import StringIO
from typing import Annotated, Any, Literal, Self

from pydantic import Field, StringConstraints, model_validator
from ruamel.yaml import YAML

from benchkit.document import SourceMap, read_document
from benchkit.errors import FieldError
from benchkit.files import BACKENDS
from benchkit.models.base import Frozen, Name
from benchkit.plugins.go_modules.ssh import repository_url
from benchkit.services.backend import Backend, OptionsT, RenderRequest, ServiceOptions
from benchkit.services.go_servers import go_executable, go_process
from benchkit.services.placement import Endpoint
from benchkit.services.service import Service, ServiceFile, SetupCommand

SOURCES = BACKENDS / "gomodules"
TEST_TIMEOUT_S = 10.0

STACK_REPOSITORY = "vcs:"
"""Prefix of a repository on the git server of the stack: `vcs:module1`."""

PLACEHOLDER = "{name}"

VersionControl = Literal["bzr", "fossil", "git", "hg", "svn"]
"""Version control systems that the go command supports (https://go.dev/ref/mod#vcs-find)."""

UrlImportPath = Annotated[str, StringConstraints(pattern=r"^(/|(/[A-Za-z0-9._~-]+)+/?)$")]
ImportPattern = Annotated[str, StringConstraints(pattern=r"^(/[A-Za-z0-9._~-]+)*/[A-Za-z0-9._~-]*\*[A-Za-z0-9._~-]*$")]
ImportHost = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]*(\.[a-z0-9][a-z0-9-]*)+(:[0-9]+)?$")]


class ImportedRepository(Frozen):
    """The repository of a module."""

    repo: Annotated[str, StringConstraints(pattern=r"^[!-~]+$")] = Field(
        description="URL of the repository, or one of the stack's git server", examples=["vcs:module1"]
    )
    vcs: VersionControl | None = Field(default=None, description="absent: git where the URL names a known server")
    display: str | None = Field(
        default=None,
        description="links for pages that show sources, in the form of go-source",
        examples=["https://example.org/module1 _ _"],
    )


class VanityFile(Frozen):
    """Content of a vanity.yaml in the format of govanityurls, extended by patterns."""

    host: ImportHost | None = Field(
        default=None,
        description="host of the import paths; absent: the host of each request",
        examples=["mycompany.com"],
    )
    cache_max_age: Annotated[int, Field(strict=True, ge=0)] | None = Field(
        default=None, description="seconds for which clients may cache an answer", examples=[86400]
    )
    paths: Mapping[UrlImportPath, ImportedRepository] = Field(
        default_factory=dict,
        description="repositories by import path",
        examples=[{"/go/module1": {"repo": "vcs:module1", "vcs": "git"}}],
    )
    patterns: Mapping[ImportPattern, ImportedRepository] = Field(
        default_factory=dict,
        description=f"one * in the last element, and {PLACEHOLDER} in the repository",
        examples=[{"/go/*": {"repo": "vcs:{name}"}}],
    )

    @model_validator(mode="after")
    def _validate_patterns(self) -> Self:
        if not (self.paths or self.patterns):
            raise ValueError("needs paths or patterns; found neither")
        for pattern, repository in self.patterns.items():
            if repository.repo.count(PLACEHOLDER) != 1:
                raise ValueError(f"patterns: {pattern}: repo: needs {PLACEHOLDER} exactly once")
        names = sorted(self.patterns)
        for i, one in enumerate(names):
            for other in names[i + 1 :]:
                if overlap(one, other):
                    raise ValueError(f"patterns: {one} and {other} overlap: one path could match both")
        return self


class VanityOptions(ServiceOptions):
    """Options of a vanity import server; its list is in the scenario, or in a vanity.yaml in the scenario's folder."""

    file: str | None = Field(
        default=None, description="a vanity.yaml, relative to the scenario's file", examples=["vanity.yaml"]
    )
    imports: VanityFile | None = Field(
        default=None,
        description="the content of a vanity.yaml",
        examples=[{"host": "mycompany.com", "paths": {"/go/module1": {"repo": "vcs:module1", "vcs": "git"}}}],
    )
    vcs: Name | None = Field(
        default=None, description=f"the git server of the repositories `{STACK_REPOSITORY}…`", examples=["vcs"]
    )

    @model_validator(mode="after")
    def _require_one_list(self) -> Self:
        if (self.file is None) == (self.imports is None):
            raise ValueError("needs either file or imports")
        return self


class Vanity(Backend[VanityOptions]):
    """A Go server of benchkit's own with its vanity.yaml."""

    name = "vanity"
    options = VanityOptions

    def connects_to(self, options: VanityOptions) -> tuple[str, ...]:
        """Return the git server that its answers name."""
        return (options.vcs,) if options.vcs else ()

    def resolve(self, options: VanityOptions, source: SourceMap) -> VanityOptions:
        """Return the options with the vanity.yaml read that the scenario names. Raises InputError."""
        if options.file is None:
            return options
        path = source.file(options.file, "file")
        return options.model_copy(update={"imports": read_document(path).validated(VanityFile)})

    def render(self, request: RenderRequest[VanityOptions]) -> Service:
        """Return one vanity import server."""
        options, place = request.options, request.place
        if options.imports is None:
            raise TypeError(f"{request.name}: its options are not resolved")
        vcs = None if options.vcs is None else request.peers[options.vcs]
        config = ServiceFile(place.folder / "vanity.yaml", vanity_yaml(options.imports, vcs).encode())
        service = render_go_server(request, self.name, "vanity", ("-config", str(config.path)), [config])
        check = SetupCommand((*service.process.argv, "-check"), TEST_TIMEOUT_S)
        return replace(service, setup_commands=(check,))


def render_go_server(
    request: RenderRequest[OptionsT],
    backend: str,
    program: str,
    arguments: Sequence[str],
    files: Sequence[ServiceFile] = (),
) -> Service:
    """Return the service of a server of `SOURCES`, which listens at the endpoint."""
    executable = go_executable(request, program, SOURCES, package=f"./{program}")
    process = go_process(request, (str(executable.path), "-listen", request.endpoint.authority, *arguments))
    return Service(
        name=request.name,
        backend=backend,
        host=request.place.host,
        folder=request.place.folder,
        files=(executable, *files),
        process=process,
        endpoint=request.endpoint,
        parallelism=len(process.cpus),
    )


def vanity_yaml(imports: VanityFile, vcs: Endpoint | None) -> str:
    """Return the vanity.yaml for the server. Raises FieldError for a stack's repository where `vcs` is missing."""

    def with_url(repository: ImportedRepository) -> dict[str, Any]:
        data = repository.model_dump(exclude_none=True)
        if repository.repo.startswith(STACK_REPOSITORY):
            if vcs is None:
                raise FieldError(
                    "vcs", f"is missing: {repository.repo} is on the stack's git server", hint="name its service"
                )
            data["repo"] = repository_url(vcs, repository.repo.removeprefix(STACK_REPOSITORY))
            data.setdefault("vcs", "git")
        return data

    data = imports.model_dump(exclude_none=True, exclude={"paths", "patterns"})
    for kind in ("paths", "patterns"):
        if listed := getattr(imports, kind):
            data[kind] = {path: with_url(repository) for path, repository in listed.items()}
    text = StringIO()
    YAML(typ="safe", pure=True).dump(data, text)
    return text.getvalue()


def overlap(one: str, other: str) -> bool:
    """Return True if some path, or one of its parents, could match both patterns."""
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


VANITY = Vanity()
