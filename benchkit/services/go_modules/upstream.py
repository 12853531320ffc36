"""A public proxy's stand-in for hosts without internet, and the guard that checks what an upstream sends."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import Field, StringConstraints

from benchkit.errors import BenchkitError
from benchkit.resources import BACKENDS
from benchkit.services.backend import Backend, ControllerFile, File, GoSource, Process, Request, Service, ServiceOptions
from benchkit.services.go_modules.module_paths import escaped
from benchkit.services.go_modules.proxy import Upstream, upstream_url
from benchkit.services.go_modules.vanity import EXECUTABLE, SOURCES
from benchkit.services.go_toolchain import find_go, go_environment, run_go

ModuleVersion = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._~/-]*@v[0-9][A-Za-z0-9.+-]*$")]

Part = Literal["info", "mod", "zip"]
_FIELDS: Mapping[Part, str] = {"info": "Info", "mod": "GoMod", "zip": "Zip"}

KNOWING = BACKENDS / "goproxyio"
"""A module whose go.sum knows its requirements: what is asked for beside it needs no database of checksums."""


@dataclass(frozen=True)
class ModuleFile(ControllerFile):
    """A file of a module as proxies serve it, out of this machine's module cache."""

    module: str
    """With its version: `github.com/x/y@v1.0.0`."""
    part: Part

    def read(self) -> bytes:
        """The file, downloaded by the go command where the cache lacks it. Raises BenchkitError."""
        return Path(_downloaded(self.module)[_FIELDS[self.part]]).read_bytes()


@cache
def _downloaded(module: str) -> dict[str, str]:
    """Where the go command has the files of a module."""
    go = find_go()
    with tempfile.TemporaryDirectory(prefix="benchkit-modules-") as folder:  # sources are only read
        for name in ("go.mod", "go.sum"):
            shutil.copyfile(KNOWING / name, Path(folder) / name)
        target = {"GOTOOLCHAIN": "local", "GOFLAGS": "-mod=mod"}
        done = run_go(
            [go, "mod", "download", "-json", module], cwd=Path(folder), environment=go_environment(go, target)
        )
    if done.returncode != 0:
        why = json.loads(done.stdout)["Error"] if done.stdout.startswith("{") else done.stderr.strip()
        raise BenchkitError("the go command cannot get it for the upstream proxy's stand-in", where=module, why=why)
    found: dict[str, str] = json.loads(done.stdout)
    return found


class UpstreamOptions(ServiceOptions):
    """A module proxy over files."""

    modules: tuple[ModuleVersion, ...] = Field(min_length=1, description="what it has: modules of this machine's cache")
    inject_fault: Literal["none", "500", "half"] = Field(
        default="none", description="for tests: zips fail with status 500, or half of each is sent"
    )


class GuardOptions(ServiceOptions):
    """Lets through what an upstream proxy sends whole and well-formed."""

    upstream: Upstream


def render_upstream(request: Request) -> Service:
    """A Go server of ours over a folder of modules."""
    options = request.options
    if not isinstance(options, UpstreamOptions):
        raise TypeError(f"{request.name}: options of another backend")
    root = request.place.folder / "modules"
    files: list[File] = []
    versions: dict[str, list[str]] = {}
    for each in dict.fromkeys(options.modules):
        path, _, version = each.partition("@")
        versions.setdefault(path, []).append(version)
        files += [
            File(root / escaped(path) / "@v" / f"{escaped(version)}.{part}", ModuleFile(each, part)) for part in _FIELDS
        ]
    for path, listed in versions.items():
        files.append(File(root / escaped(path) / "@v" / "list", "".join(f"{version}\n" for version in listed).encode()))
    return _service(request, "upstream", files, "-root", str(root), "-inject-fault", options.inject_fault)


def render_guard(request: Request) -> Service:
    """A Go server of ours between a module proxy and its upstream."""
    options = request.options
    if not isinstance(options, GuardOptions):
        raise TypeError(f"{request.name}: options of another backend")
    return _service(request, "guard", [], "-upstream", upstream_url(options.upstream, request.peers))


def _service(request: Request, program: str, files: list[File], *arguments: str) -> Service:
    options, place = request.options, request.place
    binary = place.folder / program
    cpus = place.take_cpus(options.cpus, "cpus")
    source = GoSource(SOURCES, place.goos, place.goarch, package=f"./{program}")
    return Service(
        name=request.name,
        backend=f"module-{program}",
        host=place.host,
        folder=place.folder,
        files=(File(binary, source, EXECUTABLE), *files),
        checks=(),
        process=Process(
            (str(binary), "-listen", request.endpoint.authority, *arguments),
            cpus,
            place.take_files(options.nofile),
            {"GOMAXPROCS": str(len(cpus))},
        ),
        endpoint=request.endpoint,
        parallelism=len(cpus),
    )


def _tied_to(options: ServiceOptions) -> tuple[str, ...]:
    return () if not isinstance(options, GuardOptions) or urlsplit(options.upstream).scheme else (options.upstream,)


MODULE_UPSTREAM = Backend("module-upstream", UpstreamOptions, render_upstream)
MODULE_GUARD = Backend("module-guard", GuardOptions, render_guard, tied_to=_tied_to)
