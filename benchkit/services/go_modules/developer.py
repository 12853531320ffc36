"""A developer's machine: the go command set up as the company says, which pulls a module for each request it gets.

That makes any HTTP load tool so many developers at once, and its times those of pulls. Before it opens its socket it
proves that the service works, and fails with the module and the step where it does not.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, StringConstraints, model_validator

from benchkit.models.base import Frozen
from benchkit.models.levels import Name
from benchkit.services.backend import (
    Backend,
    File,
    GoSettings,
    GoSource,
    Guidance,
    Process,
    Request,
    Service,
    ServiceOptions,
)
from benchkit.services.endpoint import Endpoint
from benchkit.services.go_modules.access import Netrc
from benchkit.services.go_modules.certificate import Certificate
from benchkit.services.go_modules.module_paths import PathPattern
from benchkit.services.go_modules.proxy import Upstream, asked_through, go_environment, upstream_url
from benchkit.services.go_modules.ssh import reading
from benchkit.services.go_modules.vanity import EXECUTABLE, SOURCES

PRIVATE_FILE = 0o600
PROVING_S = 180.0
"""On one slow core the standard library is compiled for the first time, and a cold proxy clones every repository."""

NUMBERED = "{n}"

Query = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._~/{}-]*@[A-Za-z0-9][A-Za-z0-9._+-]*$")]
"""What `go get` is given: a module or package, and a version, branch or commit; `{n}` is another number for each pull."""

ImportPath = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._~/-]*$")]
Identifier = Annotated[str, StringConstraints(pattern=r"^[A-Z][A-Za-z0-9_]*$")]


class Proved(Frozen):
    """A module that has to come, in the right version and usable."""

    get: Query
    module: ImportPath | None = Field(default=None, description="its path; absent: what stands before the @ of `get`")
    version: Annotated[str, StringConstraints(pattern=r"^v[0-9A-Za-z.*+-]+$")] = Field(
        description="the version in use then; a * stands for any text"
    )
    package: ImportPath | None = Field(default=None, description="what a program imports of it; absent: its root")
    constant: Identifier | None = Field(default=None, description="a text constant of the package")
    value: str | None = Field(default=None, description="what the constant holds")

    @model_validator(mode="after")
    def _constant_with_value(self) -> Self:
        if (self.constant is None) != (self.value is None):
            raise ValueError("constant and value stand together")
        return self

    @property
    def path(self) -> str:
        """The module."""
        return self.module or self.get.partition("@")[0]


class DeveloperOptions(ServiceOptions):
    """Somebody who pulls modules, by the company's proxy or directly from the repositories."""

    site: Name | None = Field(
        default=None, description="where modules come from; absent: private ones from repositories"
    )
    user: Name | None = Field(default=None, description="as whom, where the site asks")
    private: tuple[PathPattern, ...] = Field(
        min_length=1, description="module paths of which no database has checksums"
    )
    warm: Query = Field(description="what is pulled: a module that the proxy has after the first time")
    cold: Query | None = Field(default=None, description="what is pulled where the proxy shall not have it: {n} in it")
    cache: Literal["none", "cold", "warm"] = Field(default="warm", description="none: there is no proxy to have it")
    proof: tuple[Proved, ...] = Field(min_length=1, description="what has to work before anything is pulled")
    checksum_database: bool = Field(
        default=True, description="false: no checksums of public modules either, where there is no internet"
    )
    upstream: Upstream | None = Field(default=None, description="without a site: the proxy for public modules")
    vanity: Name | None = Field(default=None, description="without a site: the service that answers for import paths")
    vcs: Name | None = Field(default=None, description="without a site: the git server of the stack")
    reader: Name = Field(default="developers", description="under which name it reads from the git server")
    host_key: str | None = Field(
        default=None, description="the git server's public key, where benchkit did not make it"
    )

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        directly = [name for name in ("upstream", "vanity", "vcs") if getattr(self, name) is not None]
        if self.site is not None and directly:
            raise ValueError(f"with a site, {' and '.join(directly)} would not be asked")
        if self.site is None and self.user is not None:
            raise ValueError("a user without a site: nobody asks who it is")
        return self

    @model_validator(mode="after")
    def _cold_is_numbered(self) -> Self:
        if self.cache == "cold" and NUMBERED not in (self.cold or ""):
            raise ValueError(f"cache: cold takes cold: a module with {NUMBERED} in its path, which no pull had before")
        return self


def settings(options: DeveloperOptions, peers: Mapping[str, Endpoint]) -> dict[str, str]:
    """What `go env -w` is given on every developer's machine."""
    private = ",".join(options.private)
    found = {"GONOSUMDB": private}
    if options.site is not None:
        site = peers[options.site]
        found["GOPROXY"] = f"{site.protocol}://{site.authority}"
    else:
        url = None if options.upstream is None else upstream_url(options.upstream, peers)
        found |= {"GOPROXY": url or "off", "GONOPROXY": private, "GOINSECURE": private}
    if not options.checksum_database:
        found["GOSUMDB"] = "off"
    return dict(sorted(found.items()))


def settings_line(found: Mapping[str, str]) -> str:
    """The line that a developer pastes."""
    return shlex.join(["go", "env", "-w", *(f"{name}={value}" for name, value in found.items())])


def render(request: Request) -> Service:
    """A Go program of ours that runs the host's go command."""
    options, place = request.options, request.place
    if not isinstance(options, DeveloperOptions):
        raise TypeError(f"{request.name}: options of another backend")
    folder = place.folder
    binary, config, scratch = folder / "developer", folder / "developer.json", folder / "scratch"
    files, env = _credentials(options, request)
    base, found = go_environment(place, scratch, scratch), settings(options, request.peers)
    document = {
        "go": place.program("go").path,
        "scratch": str(scratch),
        "settings": found,
        "environment": {name: base[name] for name in ("PATH", "GOTOOLCHAIN")} | env,
        "pull": options.cold if options.cache == "cold" else options.warm,
        "proof": proof(options.proof),
    }
    cpus = place.take_cpus(options.cpus, "cpus")
    return Service(
        name=request.name,
        backend="go-developer",
        host=place.host,
        folder=folder,
        files=(
            File(binary, GoSource(SOURCES, place.goos, place.goarch, package="./developer"), EXECUTABLE),
            File(config, json.dumps(document, indent=1).encode()),
            *files,
        ),
        checks=(),
        process=Process(
            (str(binary), "-listen", request.endpoint.authority, "-config", str(config)),
            cpus,
            place.take_files(options.nofile),
            {"GOMAXPROCS": str(len(cpus))},
        ),
        endpoint=request.endpoint,
        forks=True,
        parallelism=len(cpus),
        scratch=(scratch,),
        ready_timeout_s=PROVING_S,
        client=True,
        guidance=(Guidance("every developer runs once", settings_line(found)),),
        go_settings=GoSettings(place.program("go").path, found),
    )


def _credentials(options: DeveloperOptions, request: Request) -> tuple[tuple[File, ...], dict[str, str]]:
    """Files that let the go command in, and where it finds them."""
    folder, peers = request.place.folder, request.peers
    if options.site is not None:
        site = peers[options.site]
        if options.user is None:
            return (), {"GOAUTH": "off"}
        netrc, certificate = folder / "netrc", folder / "certificate.pem"
        return (
            File(netrc, Netrc(site, options.user), PRIVATE_FILE),
            File(certificate, Certificate(site, "certificate")),
        ), {"NETRC": str(netrc), "SSL_CERT_FILE": str(certificate)}
    files: tuple[File, ...] = ()
    env: dict[str, str] = {}
    if options.vcs is not None:
        given = reading(peers[options.vcs], options.reader, folder, options.host_key)
        files, env["GIT_SSH_COMMAND"] = given.files, given.command
    if options.vanity is not None:
        upstream = options.upstream
        host = (
            None if upstream is None else peers[upstream].address if upstream in peers else urlsplit(upstream).hostname
        )
        env |= asked_through(peers[options.vanity], but=host)
    return files, env


def proof(proved: tuple[Proved, ...]) -> dict[str, object]:
    """The proof as the developer reads it: what to get, what is then in use, and a program with what it prints."""
    imports, says = [], []
    for number, each in enumerate(proved):
        name = f"m{number}" if each.constant else "_"
        imports.append(f'\t{name} "{each.package or each.path}"')
        if each.constant:
            says.append((f"m{number}.{each.constant}", each.value or ""))
    lines = "".join(f'\tos.Stdout.WriteString({constant} + "\\n")\n' for constant, _ in says)
    top = '\t"os"\n\n' if says else ""
    return {
        "get": [each.get for each in proved],
        "versions": {each.path: _expression(each.version) for each in proved},
        "program": f"package main\n\nimport (\n{top}{chr(10).join(imports)}\n)\n\nfunc main() {{\n{lines}}}\n",
        "output": "".join(f"{value}\n" for _, value in says),
    }


def _expression(version: str) -> str:
    r"""A regular expression of Go's for a version in which `*` stands for any text: `^v1\.0\.1-0\..*$`."""
    parts = ["".join(f"\\{c}" if c in ".+" else c for c in part) for part in version.split("*")]
    return f"^{'.*'.join(parts)}$"


def _tied_to(options: ServiceOptions) -> tuple[str, ...]:
    if not isinstance(options, DeveloperOptions):
        return ()
    upstream = options.upstream if options.upstream and not urlsplit(options.upstream).scheme else None
    return tuple(name for name in (options.site, options.vanity, options.vcs, upstream) if name is not None)


def _programs(_: ServiceOptions) -> tuple[str, ...]:
    return ("go", "git", "ssh")


GO_DEVELOPER = Backend("go-developer", DeveloperOptions, render, programs=_programs, tied_to=_tied_to)
