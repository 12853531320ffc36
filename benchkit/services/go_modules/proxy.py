"""Module proxies with a cache on disk: goproxy 2.0.7 as published, and one on the library goproxy/goproxy.

Both have the same options. The host's own go command gets private modules from their repositories, and all others from
the upstream proxy.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from benchkit.models.levels import Name
from benchkit.resources import BACKENDS
from benchkit.services.backend import Backend, RenderRequest, ServiceOptions
from benchkit.services.endpoint import Endpoint
from benchkit.services.go_modules.module_paths import PathPattern
from benchkit.services.go_modules.ssh import git_reader
from benchkit.services.go_program import go_executable, go_process
from benchkit.services.placement import ServicePlacement
from benchkit.services.service import File, Service

CACHE = "cache"
DOWNLOADS = PurePosixPath("pkg/mod/cache/download")
"""Folder of the modules in the caches of both: the layout of the go command's cache, and of the URLs of proxies."""

PUBLISHED_PACKAGE = "github.com/goproxyio/goproxy/v2"


def _check_upstream(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme and not (parts.scheme in {"http", "https"} and parts.hostname and parts.username is None):
        raise ValueError(f"found {text!r}; allowed: a service of the stack, or the URL of a module proxy")
    return text


Upstream = Annotated[str, AfterValidator(_check_upstream)]
"""A module proxy: the name of a service of the stack, or a URL."""


class ProxyOptions(ServiceOptions):
    """Options of a module proxy."""

    upstream: Upstream = Field(
        description="the proxy of all other modules: a service of the stack, or a URL", examples=["guard"]
    )
    private: tuple[PathPattern, ...] = Field(
        min_length=1, description="module paths that come from repositories", examples=[["mycompany.com/go"]]
    )
    vanity: Name | None = Field(
        default=None,
        description="the service that resolves private import paths; absent: the host that they name",
        examples=["names"],
    )
    vcs: Name | None = Field(
        default=None,
        description="the git server of the stack; absent: the SSH settings of the login user apply",
        examples=["vcs"],
    )
    reader: Name = Field(default="proxy", description="its name among the readers of the git server")
    host_key: str | None = Field(
        default=None,
        description="the git server's public key, where benchkit did not create it: `ssh-ed25519 AAAA…`",
        examples=["ssh-ed25519 AAAA"],
    )


class ModuleProxy(Backend[ProxyOptions]):
    """A module proxy: one process, with its cache in the service's folder."""

    options = ProxyOptions

    def __init__(self, name: str, package: str) -> None:
        self.name = name
        self._package = package

    def programs(self, options: ProxyOptions) -> tuple[str, ...]:
        """Return the programs with which it gets modules."""
        del options
        return GO_PROGRAMS

    def connects_to(self, options: ProxyOptions) -> tuple[str, ...]:
        """Return its upstream, the vanity import server and the git server, as far as they are in the stack."""
        return tuple(name for name in (upstream_service(options.upstream), options.vanity, options.vcs) if name)

    def render(self, request: RenderRequest[ProxyOptions]) -> Service:
        """Return one module proxy."""
        options, place = request.options, request.place
        folder = place.folder
        cache, scratch = folder / CACHE, folder / "scratch"
        upstream = upstream_url(options.upstream, request.peers)
        private = ",".join(options.private)
        executable = go_executable(request, self.name, BACKENDS / self.name, package=self._package)
        telemetry_off = File(folder / "home" / ".config" / "go" / "telemetry" / "mode", b"off")
        files = [telemetry_off, executable]
        env = {**go_environment(place, folder / "home", scratch), "GOINSECURE": private, "TMPDIR": str(scratch)}
        if options.vanity is not None:
            env |= http_proxy_environment(request.peers[options.vanity], direct_host=urlsplit(upstream).hostname)
        if options.vcs is not None:
            reader = git_reader(request.peers[options.vcs], options.reader, folder, options.host_key)
            files += reader.files
            env["GIT_SSH_COMMAND"] = reader.ssh_command
        argv = (str(executable.path), "-listen", request.endpoint.authority, "-cacheDir", str(cache))
        process = go_process(request, (*argv, "-proxy", upstream, "-exclude", private), env=env)
        return Service(
            name=request.name,
            backend=self.name,
            host=place.host,
            folder=folder,
            files=tuple(files),
            checks=(),
            process=process,
            endpoint=request.endpoint,
            forks_per_request=True,
            scratch_folders=(cache, scratch),
            parallelism=len(process.cpus),
        )


GO_PROGRAMS = ("go", "git", "ssh")
"""Programs of the host with which the go command gets modules from repositories."""


def go_environment(place: ServicePlacement, home: PurePosixPath, scratch: PurePosixPath) -> dict[str, str]:
    """Return the environment of a host's go command: its programs on the PATH, and no settings of the login user.

    Modules are writable (`-modcacherw`), so that a user other than root can remove their folder.
    """
    folders = [str(PurePosixPath(place.program(name).path).parent) for name in GO_PROGRAMS]
    return {
        "PATH": os.pathsep.join(dict.fromkeys([*folders, "/usr/local/bin", "/usr/bin", "/bin"])),
        "HOME": str(home),
        "XDG_CONFIG_HOME": "",
        "GOENV": "off",
        "GOFLAGS": "-modcacherw",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
        "GOCACHE": str(scratch / "build"),
        "GOPATH": str(scratch / "gopath"),
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
    }


def http_proxy_environment(vanity: Endpoint, direct_host: str | None) -> dict[str, str]:
    """Return the settings that make the vanity import server the HTTP proxy for all hosts but `direct_host`.

    The published recipe writes the company's host into /etc/hosts, which needs root and affects the whole machine. The
    go command tries https first, which the server refuses at once.
    """
    proxy = f"http://{vanity.authority}"
    return {"HTTP_PROXY": proxy, "HTTPS_PROXY": proxy, "NO_PROXY": direct_host or ""}


def upstream_url(upstream: str, peers: Mapping[str, Endpoint]) -> str:
    """Return the URL of an upstream proxy: that of a service of the stack, or the given one."""
    return f"http://{peers[upstream].authority}" if upstream in peers else upstream


def upstream_service(upstream: str | None) -> str | None:
    """Return the service of the stack that an upstream proxy is; None for a URL."""
    return None if upstream is None or urlsplit(upstream).scheme else upstream


GOPROXYIO = ModuleProxy("goproxyio", PUBLISHED_PACKAGE)
GOPROXY = ModuleProxy("goproxy", ".")
