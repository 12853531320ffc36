"""A module proxy over files that replaces a public one where there is no internet."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from benchkit.errors import BenchkitError
from benchkit.files import BACKENDS
from benchkit.plugins.go_modules.proxy import escape_path
from benchkit.plugins.go_modules.vanity import render_go_server
from benchkit.services.backend import Backend, RenderRequest, ServiceOptions
from benchkit.services.go_build import find_go, go_environment, run_go
from benchkit.services.service import ControllerFile, Service, ServiceFile

ModuleVersion = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._~/-]*@v[0-9][A-Za-z0-9.+-]*$")]

ModulePart = Literal["info", "mod", "zip"]
_FIELDS: Mapping[ModulePart, str] = {"info": "Info", "mod": "GoMod", "zip": "Zip"}

CHECKSUM_SOURCE = BACKENDS / "goproxyio"
"""A module whose go.sum has the checksums of the modules to serve, so that the checksum database is not needed."""


@dataclass(frozen=True)
class ModuleFile(ControllerFile):
    """A file of a module in the form that proxies serve, from the controller's module cache."""

    module: str
    """Module and version: `github.com/x/y@v1.0.0`."""
    part: ModulePart

    def read(self) -> bytes:
        """Return the file; the go command downloads it if the cache does not have it. Raises BenchkitError."""
        return Path(_download(self.module)[_FIELDS[self.part]]).read_bytes()


@cache
def _download(module: str) -> dict[str, str]:
    """Download a module into the cache, and return the paths of its files by the names that `go mod download` has."""
    go = find_go()
    with tempfile.TemporaryDirectory(prefix="benchkit-modules-") as folder:  # the sources are never written to
        for name in ("go.mod", "go.sum"):
            shutil.copyfile(CHECKSUM_SOURCE / name, Path(folder) / name)
        target = {"GOTOOLCHAIN": "local", "GOFLAGS": "-mod=mod"}
        done = run_go(
            [go, "mod", "download", "-json", module], cwd=Path(folder), environment=go_environment(go, target)
        )
    if done.returncode != 0:
        why = json.loads(done.stdout)["Error"] if done.stdout.startswith("{") else done.stderr.strip()
        raise BenchkitError("the go command cannot download a module for the upstream proxy", where=module, why=why)
    paths: dict[str, str] = json.loads(done.stdout)
    return paths


class UpstreamOptions(ServiceOptions):
    """Options of a module proxy over files."""

    modules: tuple[ModuleVersion, ...] = Field(
        min_length=1,
        description="modules that it serves, from the controller's module cache",
        examples=[["github.com/beorn7/perks@v1.0.1"]],
    )


class ModuleUpstream(Backend[UpstreamOptions]):
    """A Go server of benchkit's own over a folder of modules."""

    name = "module-upstream"
    options = UpstreamOptions

    def render(self, request: RenderRequest[UpstreamOptions]) -> Service:
        """Return one module proxy with its files."""
        root = request.place.folder / "modules"
        files: list[ServiceFile] = []
        versions: dict[str, list[str]] = {}
        for module in dict.fromkeys(request.options.modules):
            path, _, version = module.partition("@")
            versions.setdefault(path, []).append(version)
            folder, name = root / escape_path(path) / "@v", escape_path(version)
            files += [ServiceFile(folder / f"{name}.{part}", ModuleFile(module, part)) for part in _FIELDS]
        for path, listed in versions.items():
            text = "".join(f"{version}\n" for version in listed)
            files.append(ServiceFile(root / escape_path(path) / "@v" / "list", text.encode()))
        return render_go_server(request, self.name, "upstream", ("-root", str(root)), files)


MODULE_UPSTREAM = ModuleUpstream()
