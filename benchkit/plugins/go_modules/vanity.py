"""The server of vanity import paths: it tells the go command which repository an import path of your own leads to."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

from pydantic import Field

from benchkit.errors import FieldError
from benchkit.files import BACKENDS
from benchkit.models.base import Frozen, Name
from benchkit.plugins.go_modules.git_server import repository_url
from benchkit.services.backend import Backend, OptionsT, RenderRequest, ServiceOptions
from benchkit.services.go_servers import go_executable, go_process
from benchkit.services.placement import Endpoint
from benchkit.services.service import Service, ServiceFile, SetupCommand

SOURCES = BACKENDS / "gomodules"
TEST_TIMEOUT_S = 10.0

STACK_REPOSITORY = "vcs:"
"""Prefix of a repository on the git server of the stack: `vcs:module1`."""


class VanityFile(Frozen):
    """Content of a vanity.yaml in the format of govanityurls, extended by patterns; the server validates it."""

    host: str | None = Field(
        default=None,
        description="host of the import paths; absent: the host of each request",
        examples=["mycompany.com"],
    )
    paths: Mapping[str, Mapping[str, str]] = Field(
        default_factory=dict,
        description="repositories by import path: their `repo`, a URL or one of the stack's git server, and `vcs`",
        examples=[{"/go/module1": {"repo": "vcs:module1", "vcs": "git"}}],
    )
    patterns: Mapping[str, Mapping[str, str]] = Field(
        default_factory=dict,
        description="one * in the last element, and {name} in the repository",
        examples=[{"/go/*": {"repo": "vcs:{name}"}}],
    )


class VanityOptions(ServiceOptions):
    """Options of a vanity import server."""

    imports: VanityFile = Field(
        description="the content of its vanity.yaml",
        examples=[{"host": "mycompany.com", "paths": {"/go/module1": {"repo": "vcs:module1", "vcs": "git"}}}],
    )
    vcs: Name | None = Field(
        default=None, description=f"the git server of the repositories `{STACK_REPOSITORY}…`", examples=["vcs"]
    )


class Vanity(Backend[VanityOptions]):
    """A Go server of benchkit's own with its vanity.yaml."""

    name = "vanity"
    options = VanityOptions

    def connects_to(self, options: VanityOptions) -> tuple[str, ...]:
        """Return the git server that its answers name."""
        return (options.vcs,) if options.vcs else ()

    def render(self, request: RenderRequest[VanityOptions]) -> Service:
        """Return one vanity import server."""
        options, place = request.options, request.place
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
    executable = go_executable(request.place, program, SOURCES, package=f"./{program}")
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
    """Return the vanity.yaml for the server, as JSON, which is YAML.

    Raises FieldError for a stack's repository where `vcs` is missing.
    """

    def with_url(repository: Mapping[str, str]) -> Mapping[str, str]:
        name = repository.get("repo", "")
        if not name.startswith(STACK_REPOSITORY):
            return repository
        if vcs is None:
            raise FieldError("vcs", f"is missing: {name} is on the stack's git server", hint="name its service")
        return {"vcs": "git", **repository, "repo": repository_url(vcs, name.removeprefix(STACK_REPOSITORY))}

    listed = {
        kind: {path: with_url(repository) for path, repository in repositories.items()}
        for kind, repositories in (("paths", imports.paths), ("patterns", imports.patterns))
    }
    return json.dumps({**imports.model_dump(include={"host"}, exclude_none=True), **listed}, indent=1)


VANITY = Vanity()
