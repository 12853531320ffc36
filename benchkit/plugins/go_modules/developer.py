"""A developer's machine: a server that pulls a module with the host's go command for each request.

An HTTP load tool thus acts as many developers at once, and its response times are the times of pulls. Before the server
opens its socket it verifies the stack by real pulls. It fails with the module and the step where one does not work.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from benchkit.models.base import Frozen, Name
from benchkit.plugins.go_modules.proxy import (
    GO_PROGRAMS,
    RepositoryOptions,
    Upstream,
    go_environment,
    repository_access,
    upstream_service,
    upstream_url,
)
from benchkit.plugins.go_modules.reverse_proxy import NetrcFile, SiteCertificate
from benchkit.plugins.go_modules.vanity import render_go_server
from benchkit.services.backend import Backend, RenderRequest
from benchkit.services.certificates import PRIVATE_FILE
from benchkit.services.placement import Endpoint
from benchkit.services.service import Instruction, Service, ServiceFile

VERIFICATION_TIMEOUT_S = 180.0
"""On one slow core the first build compiles the standard library, and a cold proxy clones every repository."""

NUMBER_PLACEHOLDER = "{n}"

Query = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._~/{}-]*@[A-Za-z0-9][A-Za-z0-9._+-]*$")]
"""Argument of `go get`: a module or package, and a version, branch or commit; `{n}` is a new number in each pull."""

ImportPath = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._~/-]*$")]
Identifier = Annotated[str, StringConstraints(pattern=r"^[A-Z][A-Za-z0-9_]*$")]


class ModuleProof(Frozen):
    """A module that must be downloaded in the right version and be usable."""

    get: Query = Field(description="what `go get` is asked for", examples=["mycompany.com/go/module1@v1.99.0"])
    module: ImportPath | None = Field(
        default=None,
        description="its path; absent: the part of `get` before the @",
        examples=["mycompany.com/go/module1"],
    )
    version: Annotated[str, StringConstraints(pattern=r"^v[0-9A-Za-z.*+-]+$")] = Field(
        description="the version that `go get` must select; a * matches any text", examples=["v1.99.0"]
    )
    package: ImportPath | None = Field(
        default=None,
        description="its package that a program imports; absent: its root",
        examples=["mycompany.com/go/module1"],
    )
    constant: Identifier | None = Field(
        default=None, description="a text constant of the package", examples=["Version"]
    )
    value: str | None = Field(default=None, description="the value of the constant", examples=["v1.99.0"])

    @model_validator(mode="after")
    def _require_constant_with_value(self) -> Self:
        if (self.constant is None) != (self.value is None):
            raise ValueError("needs constant and value together, or neither")
        return self

    @property
    def path(self) -> str:
        """The path of the module."""
        return self.module or self.get.partition("@")[0]


class DeveloperOptions(RepositoryOptions):
    """Options of a developer, who pulls modules through the company's proxy or directly from the repositories."""

    site: Name | None = Field(
        default=None,
        description="the server of all modules; absent: private ones come from repositories",
        examples=["site"],
    )
    user: Name | None = Field(default=None, description="user who logs in to the site", examples=["alice"])
    warm: Query = Field(
        description="module to pull that is in the proxy's cache after the first pull",
        examples=["mycompany.com/go/module1@v1.99.0"],
    )
    cold: Query | None = Field(
        default=None,
        description="module to pull that is not in the proxy's cache, with {n} in its path",
        examples=["mycompany.com/go/new-{n}@v1.99.0"],
    )
    cache: Literal["none", "cold", "warm"] = Field(
        default="warm", description="the module that is pulled; none: `warm`, where there is no proxy with a cache"
    )
    proof: tuple[ModuleProof, ...] = Field(
        min_length=1,
        description="modules that must work before the server starts",
        examples=[[{"get": "mycompany.com/go/module1@v1.99.0", "version": "v1.99.0"}]],
    )
    checksum_database: bool = Field(
        default=True, description="false: do not verify checksums of public modules either, where there is no internet"
    )
    upstream: Upstream | None = Field(
        default=None, description="without a site: the proxy of public modules", examples=["upstream"]
    )
    reader: Name = Field(default="developers", description="its name among the readers of the git server")

    @model_validator(mode="after")
    def _require_one_source(self) -> Self:
        unused = [name for name in ("upstream", "vanity", "vcs") if getattr(self, name) is not None]
        if self.site is not None and unused:
            raise ValueError(f"with a site, {' and '.join(unused)} would not be used")
        if self.site is None and self.user is not None:
            raise ValueError("a user without a site: there is no server to log in to")
        return self

    @model_validator(mode="after")
    def _require_numbered_cold_module(self) -> Self:
        if self.cache == "cold" and NUMBER_PLACEHOLDER not in (self.cold or ""):
            raise ValueError(
                f"cache: cold needs cold: a module with {NUMBER_PLACEHOLDER} in its path, new in each pull"
            )
        return self


class Developer(Backend[DeveloperOptions]):
    """A Go program of benchkit's own that runs the host's go command, and verifies the stack first."""

    name = "go-developer"
    options = DeveloperOptions
    needs = GO_PROGRAMS

    def connects_to(self, options: DeveloperOptions) -> tuple[str, ...]:
        """Return the services of the stack that it pulls from."""
        names = (options.site, options.vanity, options.vcs, upstream_service(options.upstream))
        return tuple(name for name in names if name)

    def render(self, request: RenderRequest[DeveloperOptions]) -> Service:
        """Return one developer."""
        options, place = request.options, request.place
        folder, go = place.folder, place.program("go").path
        config, scratch = folder / "developer.json", folder / "scratch"
        files, env = _credentials(request)
        base_env, settings = go_environment(place, scratch, scratch), go_settings(options, request.peers)
        document = {
            "go": go,
            "scratch": str(scratch),
            "settings": settings,
            "environment": {name: base_env[name] for name in ("PATH", "GOTOOLCHAIN")} | env,
            "pull": options.cold if options.cache == "cold" else options.warm,
            "proof": proof_document(options.proof),
        }
        service = render_go_server(
            request,
            self.name,
            "developer",
            ("-config", str(config)),
            (ServiceFile(config, json.dumps(document, indent=1).encode()), *files),
        )
        return replace(
            service,
            forks_per_request=True,
            scratch_folders=(scratch,),
            ready_timeout_s=VERIFICATION_TIMEOUT_S,
            is_verifier=True,
            instructions=(Instruction("every developer runs once", go_env_command(settings)),),
        )


def go_settings(options: DeveloperOptions, peers: Mapping[str, Endpoint]) -> dict[str, str]:
    """Return the settings for `go env -w` on every developer's machine."""
    private = ",".join(options.private)
    settings = {"GONOSUMDB": private}
    if options.site is not None:
        site = peers[options.site]
        settings["GOPROXY"] = site.origin
    else:
        url = None if options.upstream is None else upstream_url(options.upstream, peers)
        settings |= {"GOPROXY": url or "off", "GONOPROXY": private, "GOINSECURE": private}
    if not options.checksum_database:
        settings["GOSUMDB"] = "off"
    return dict(sorted(settings.items()))


def go_env_command(settings: Mapping[str, str]) -> str:
    """Return the command that makes the settings, for developers to paste into a shell."""
    return shlex.join(["go", "env", "-w", *(f"{name}={value}" for name, value in settings.items())])


def _credentials(request: RenderRequest[DeveloperOptions]) -> tuple[tuple[ServiceFile, ...], dict[str, str]]:
    options, peers, folder = request.options, request.peers, request.place.folder
    if options.site is not None:
        site = peers[options.site]
        if options.user is None:
            return (), {"GOAUTH": "off"}
        netrc, certificate = folder / "netrc", folder / "certificate.pem"
        return (
            ServiceFile(netrc, NetrcFile(site, options.user), PRIVATE_FILE),
            ServiceFile(certificate, SiteCertificate(site, "authority")),
        ), {"NETRC": str(netrc), "SSL_CERT_FILE": str(certificate)}
    upstream = None if options.upstream is None else upstream_url(options.upstream, peers)
    return repository_access(options, peers, folder, upstream)


def proof_document(proofs: Sequence[ModuleProof]) -> dict[str, Any]:
    """Return the proofs as the Go program reads them: modules to get, expected versions, a program and its output."""
    imports, constants = [], []
    for number, module in enumerate(proofs):
        name = f"m{number}" if module.constant else "_"
        imports.append(f'\t{name} "{module.package or module.path}"')
        if module.constant:
            constants.append((f"m{number}.{module.constant}", module.value or ""))
    prints = "".join(f'\tos.Stdout.WriteString({constant} + "\\n")\n' for constant, _ in constants)
    os_import = '\t"os"\n\n' if constants else ""
    return {
        "get": [module.get for module in proofs],
        "versions": {module.path: _version_expression(module.version) for module in proofs},
        "program": f"package main\n\nimport (\n{os_import}{chr(10).join(imports)}\n)\n\nfunc main() {{\n{prints}}}\n",
        "output": "".join(f"{value}\n" for _, value in constants),
    }


def _version_expression(version: str) -> str:
    r"""Return a regular expression of Go's for a version in which `*` matches any text: `^v1\.0\.1-0\..*$`."""
    parts = ["".join(f"\\{c}" if c in ".+" else c for c in part) for part in version.split("*")]
    return f"^{'.*'.join(parts)}$"


GO_DEVELOPER = Developer()
