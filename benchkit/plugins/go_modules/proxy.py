"""Module proxies with a cache on disk: goproxy 2.0.7, one on the library goproxy/goproxy, and Athens.

All have the same options. The host's own go command gets private modules from their repositories, and all others from
the upstream proxy.
"""

from __future__ import annotations

import os
import re
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Annotated, NamedTuple
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, StringConstraints

from benchkit.errors import UnsupportedError
from benchkit.files import BACKENDS
from benchkit.models.base import Name
from benchkit.plugins.go_modules.git_server import git_reader
from benchkit.services.backend import Backend, RenderRequest, ServiceOptions
from benchkit.services.go_servers import go_executable, go_process
from benchkit.services.placement import Endpoint, ServicePlacement
from benchkit.services.service import Service, ServiceFile

PathPattern = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9*?][A-Za-z0-9._~*?-]*(/[A-Za-z0-9._~*?-]+)*$")]
"""`mycompany.com/go`, `*.mycompany.com/team-*`: matches the leading elements of a module path, as in GOPRIVATE
(https://go.dev/ref/mod#private-modules). The brackets that Go also allows are not supported."""


def escape_path(path: str) -> str:
    """Return a module path as URLs and caches of module proxies have it: `!` and a small letter for each capital.

    https://go.dev/ref/mod#goproxy-protocol
    """
    return re.sub(r"[A-Z]", lambda capital: f"!{capital[0].lower()}", path)


def path_expression(pattern: str) -> str:
    """Return the regular expression of the paths in URLs that a pattern matches."""
    wild = {"*": "[^/]*", "?": "[^/]"}
    return "".join(wild.get(character, re.escape(character)) for character in escape_path(pattern))


CACHE = "cache"
DOWNLOADS = PurePosixPath("pkg/mod/cache/download")
"""Folder of the modules in the caches of both goproxies: the layout of the go command's cache, and of their URLs."""

GO_PROGRAMS = ("go", "git", "ssh")
"""Programs of the host with which the go command gets modules from repositories."""

PUBLISHED_PACKAGE = "github.com/goproxyio/goproxy/v2"


def _validate_upstream(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme and not (parts.scheme in {"http", "https"} and parts.hostname and parts.username is None):
        raise ValueError(f"found {text!r}; allowed: a service of the stack, or the URL of a module proxy")
    return text


Upstream = Annotated[str, AfterValidator(_validate_upstream)]
"""A module proxy: the name of a service of the stack, or a URL."""


class RepositoryOptions(ServiceOptions):
    """Options of a service whose go command gets private modules from their repositories."""

    private: tuple[PathPattern, ...] = Field(
        min_length=1,
        description="module paths that come from repositories, without entries in the checksum database",
        examples=[["mycompany.com/go"]],
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


class ProxyOptions(RepositoryOptions):
    """Options of a module proxy."""

    upstream: Upstream = Field(
        description="the proxy of all other modules: a service of the stack, or a URL", examples=["upstream"]
    )


def repository_access(
    options: RepositoryOptions, peers: Mapping[str, Endpoint], folder: PurePosixPath, upstream: str | None
) -> tuple[tuple[ServiceFile, ...], dict[str, str]]:
    """Return the files and the environment with which a go command gets modules from repositories.

    `upstream` is the URL of the proxy of all other modules, which is reached directly.
    """
    files: tuple[ServiceFile, ...] = ()
    env: dict[str, str] = {}
    if options.vanity is not None:
        direct_host = None if upstream is None else urlsplit(upstream).hostname
        env |= http_proxy_environment(peers[options.vanity], direct_host)
    if options.vcs is not None:
        files, env["GIT_SSH_COMMAND"] = git_reader(peers[options.vcs], options.reader, folder)
    return files, env


class ProxyCommand(NamedTuple):
    """The command of a proxy: its arguments, further variables, and the executable where benchkit carries it."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    files: tuple[ServiceFile, ...] = ()


class ModuleProxy(Backend[ProxyOptions]):
    """A module proxy: one process, with its cache in the service's folder."""

    options = ProxyOptions
    needs = GO_PROGRAMS

    def connects_to(self, options: ProxyOptions) -> tuple[str, ...]:
        """Return its upstream, the vanity import server and the git server, as far as they are in the stack."""
        return tuple(name for name in (upstream_service(options.upstream), options.vanity, options.vcs) if name)

    def render(self, request: RenderRequest[ProxyOptions]) -> Service:
        """Return one module proxy."""
        options, place = request.options, request.place
        folder = place.folder
        cache, scratch = folder / CACHE, folder / "scratch"
        upstream = upstream_url(options.upstream, request.peers)
        telemetry = ServiceFile(folder / "home" / ".config" / "go" / "telemetry" / "mode", b"off")
        files, access = repository_access(options, request.peers, folder, upstream)
        env = go_environment(place, folder / "home", scratch)
        env |= {"GOINSECURE": ",".join(options.private), "TMPDIR": str(scratch), **access}
        command = self._command(request, upstream, env)
        process = go_process(request, command.argv, env={**env, **command.env})
        return Service(
            name=request.name,
            backend=self.name,
            host=place.host,
            folder=folder,
            files=(telemetry, *files, *command.files),
            process=process,
            endpoint=request.endpoint,
            forks_per_request=True,
            scratch_folders=(cache, scratch),
            parallelism=len(process.cpus),
        )

    @abstractmethod
    def _command(self, request: RenderRequest[ProxyOptions], upstream: str, env: Mapping[str, str]) -> ProxyCommand:
        """Return the command of this proxy; all get `env`, and other modules from the proxy at the URL `upstream`."""


class Goproxy(ModuleProxy):
    """A proxy that benchkit builds, with the command line of goproxy 2.0.7."""

    def __init__(self, name: str, package: str) -> None:
        self.name = name
        self._package = package

    def _command(self, request: RenderRequest[ProxyOptions], upstream: str, env: Mapping[str, str]) -> ProxyCommand:
        del env
        executable = go_executable(request.place, self.name, BACKENDS / self.name, package=self._package)
        cache, private = str(request.place.folder / CACHE), ",".join(request.options.private)
        listen = ("-listen", request.endpoint.authority, "-cacheDir", cache)
        argv = (str(executable.path), *listen, "-proxy", upstream, "-exclude", private)
        return ProxyCommand(argv, {}, (executable,))


class Athens(ModuleProxy):
    """Athens, from a binary that the inventory names: its settings are environment variables.

    Its sources are neither on the public module proxy nor in Debian, so that benchkit does not build it. Cells on a
    host without a binary are unsupported. ATHENS_GO_BINARY_ENV_VARS has the variables that it does not pass on itself.
    """

    name = "athens"

    def _command(self, request: RenderRequest[ProxyOptions], upstream: str, env: Mapping[str, str]) -> ProxyCommand:
        place = request.place
        if self.name not in place.programs:
            named = f"the inventory may name one (hosts.{place.host}.programs: {{athens: /path/to/athens}})"
            raise UnsupportedError(f"{place.host} has no athens: {named}")
        of_go = {
            "GOPROXY": upstream,
            "GONOPROXY": env["GOINSECURE"],
            "GOSUMDB": "off",
            "GOINSECURE": env["GOINSECURE"],
            **{name: value for name, value in env.items() if name in _PASSED_TO_GO},
        }
        settings = {
            "GO_ENV": "production",
            "GO_BINARY_PATH": place.program("go").path,
            "ATHENS_GO_BINARY_ENV_VARS": ";".join(f"{name}={value}" for name, value in of_go.items()),
            "ATHENS_PORT": request.endpoint.authority,
            "ATHENS_STORAGE_TYPE": "disk",
            "ATHENS_DISK_STORAGE_ROOT": str(place.folder / CACHE),
            "ATHENS_GOGET_DIR": env["TMPDIR"],
            "ATHENS_LOG_LEVEL": "error",
            "ATHENS_STATS_EXPORTER": "",
        }
        return ProxyCommand((place.programs[self.name].path,), settings)


_PASSED_TO_GO = frozenset(
    ["GOENV", "GOFLAGS", "GOTOOLCHAIN", "GOWORK", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM", "GIT_TERMINAL_PROMPT"]
)
"""Variables of the proxy that Athens does not pass to the go command by itself."""


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
    """Return the URL of an upstream proxy, which is a service of the stack, or the given URL."""
    return f"http://{peers[upstream].authority}" if upstream in peers else upstream


def upstream_service(upstream: str | None) -> str | None:
    """Return the service of the stack that an upstream proxy is; None for a URL."""
    return None if upstream is None or urlsplit(upstream).scheme else upstream


GOPROXYIO = Goproxy("goproxyio", PUBLISHED_PACKAGE)
GOPROXY = Goproxy("goproxy", ".")
ATHENS = Athens()
