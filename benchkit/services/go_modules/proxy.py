"""Module proxies with a cache on disk: goproxy 2.0.7 as it was published, and one on the library goproxy/goproxy.

Both take the same options. Private modules come from their repositories by the host's own go command, all others from
the upstream proxy.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from pathlib import PurePosixPath
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from benchkit.models.levels import Name
from benchkit.resources import BACKENDS
from benchkit.services.backend import (
    Backend,
    File,
    GoSource,
    Process,
    Request,
    Service,
    ServiceOptions,
    ServicePlacement,
)
from benchkit.services.endpoint import Endpoint
from benchkit.services.go_modules.module_paths import PathPattern
from benchkit.services.go_modules.ssh import reading

EXECUTABLE = 0o755

CACHE = "cache"
DOWNLOADS = PurePosixPath("pkg/mod/cache/download")
"""Where both keep modules below their cache folder: the layout of the go command's own cache, and of proxies' URLs."""

PUBLISHED = "github.com/goproxyio/goproxy/v2"


def _service_or_url(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme and not (parts.scheme in {"http", "https"} and parts.hostname and parts.username is None):
        raise ValueError(f"found {text!r}; allowed: a service of the stack, or the URL of a module proxy")
    return text


Upstream = Annotated[str, AfterValidator(_service_or_url)]


class ProxyOptions(ServiceOptions):
    """A module proxy."""

    upstream: Upstream = Field(description="the proxy for all that is not private: a service of the stack, or a URL")
    private: tuple[PathPattern, ...] = Field(min_length=1, description="module paths that come from repositories")
    vanity: Name | None = Field(
        default=None, description="the service that answers for private import paths; absent: their own host does"
    )
    vcs: Name | None = Field(
        default=None, description="the git server of the stack; absent: the login's own SSH settings count"
    )
    reader: Name = Field(default="proxy", description="under which name it reads from the git server")
    host_key: str | None = Field(
        default=None, description="the git server's public key, where benchkit did not make it: `ssh-ed25519 AAAA…`"
    )


def render(request: Request, program: str, package: str) -> Service:
    """A module proxy: one process, its cache in a folder of its own."""
    options, place = request.options, request.place
    if not isinstance(options, ProxyOptions):
        raise TypeError(f"{request.name}: options of another backend")
    folder = place.folder
    binary, cache, scratch = folder / program, folder / CACHE, folder / "scratch"
    upstream = upstream_url(options.upstream, request.peers)
    private = ",".join(options.private)
    telemetry_off = File(folder / "home" / ".config" / "go" / "telemetry" / "mode", b"off")
    files = [
        telemetry_off,
        File(binary, GoSource(BACKENDS / program, place.goos, place.goarch, package=package), EXECUTABLE),
    ]
    env = {**go_environment(place, folder / "home", scratch), "GOINSECURE": private, "TMPDIR": str(scratch)}
    if options.vanity is not None:
        env |= asked_through(request.peers[options.vanity], but=urlsplit(upstream).hostname)
    if options.vcs is not None:
        given = reading(request.peers[options.vcs], options.reader, folder, options.host_key)
        files += given.files
        env["GIT_SSH_COMMAND"] = given.command
    cpus = place.take_cpus(options.cpus, "cpus")
    argv = (str(binary), "-listen", request.endpoint.authority, "-cacheDir", str(cache))
    return Service(
        name=request.name,
        backend=program,
        host=place.host,
        folder=folder,
        files=tuple(files),
        checks=(),
        process=Process(
            (*argv, "-proxy", upstream, "-exclude", private),
            cpus,
            place.take_files(options.nofile),
            {**env, "GOMAXPROCS": str(len(cpus))},
        ),
        endpoint=request.endpoint,
        forks=True,
        scratch=(cache, scratch),
        parallelism=len(cpus),
    )


def go_environment(place: ServicePlacement, home: PurePosixPath, scratch: PurePosixPath) -> dict[str, str]:
    """What a host's go command is run with: found, and free of the login's own settings.

    Modules are writable (`-modcacherw`), so that their folder can be removed by who is not root.
    """
    found = [str(PurePosixPath(place.program(name).path).parent) for name in ("go", "git", "ssh")]
    return {
        "PATH": os.pathsep.join(dict.fromkeys([*found, "/usr/local/bin", "/usr/bin", "/bin"])),
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


def asked_through(vanity: Endpoint, but: str | None) -> dict[str, str]:
    """Have the go command ask this service for private import paths, as an HTTP proxy for all hosts `but` one.

    The published recipe writes the company's host into /etc/hosts, which takes root and changes the whole machine. The
    go command tries https first, which the service refuses at once.
    """
    proxy = f"http://{vanity.authority}"
    return {"HTTP_PROXY": proxy, "HTTPS_PROXY": proxy, "NO_PROXY": but or ""}


def upstream_url(given: str, peers: Mapping[str, Endpoint]) -> str:
    """The URL of an upstream proxy: that of a service of the stack, or as given."""
    return f"http://{peers[given].authority}" if given in peers else given


def _tied_to(options: ServiceOptions) -> tuple[str, ...]:
    if not isinstance(options, ProxyOptions):
        return ()
    upstream = None if urlsplit(options.upstream).scheme else options.upstream
    return tuple(name for name in (upstream, options.vanity, options.vcs) if name is not None)


def _programs(_: ServiceOptions) -> tuple[str, ...]:
    return ("go", "git", "ssh")


GOPROXYIO = Backend(
    "goproxyio",
    ProxyOptions,
    partial(render, program="goproxyio", package=PUBLISHED),
    programs=_programs,
    tied_to=_tied_to,
)
GOPROXY = Backend(
    "goproxy", ProxyOptions, partial(render, program="goproxy", package="."), programs=_programs, tied_to=_tied_to
)
