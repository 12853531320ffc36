from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

import pytest

from benchkit.errors import UnsupportedError
from benchkit.plugins.go_modules.git_server import host_key_name
from benchkit.plugins.go_modules.proxy import ATHENS, GOPROXY, GOPROXYIO, ProxyOptions, escape_path, path_expression
from benchkit.plugins.go_modules.upstream import MODULE_UPSTREAM, ModuleFile, UpstreamOptions
from benchkit.services.backend import RenderRequest
from benchkit.services.go_build import GoSource
from benchkit.services.placement import Endpoint, HostProgram, ServicePlacement
from benchkit.services.service import Service

PEERS = {
    "vcs": Endpoint("vcs", "ssh", "10.0.0.3", 2222, user="bench"),
    "guard": Endpoint("one", "http1", "127.0.0.1", 8082),
    "names": Endpoint("one", "http1", "10.0.0.2", 8000),
}
BASE: dict[str, Any] = {
    "backend": "goproxyio", "listen": "127.0.0.1:8081", "upstream": "guard", "private": ["mycompany.com/go", "b.example"],
}  # fmt: skip


def render(place: Callable[..., ServicePlacement], backend: str, **options: object) -> Service:
    checked = ProxyOptions.model_validate(BASE | options)
    backend_of_name = {"goproxyio": GOPROXYIO, "goproxy": GOPROXY}[backend]
    return backend_of_name.render(
        RenderRequest("proxy", checked, place("proxy"), Endpoint("one", "http1", "127.0.0.1", 8081), PEERS)
    )


@pytest.mark.parametrize(("backend", "package"), [("goproxyio", "github.com/goproxyio/goproxy/v2"), ("goproxy", ".")])
def test_both_proxies_have_the_same_command_line(
    place: Callable[..., ServicePlacement], backend: str, package: str
) -> None:
    service = render(place, backend, vanity="names", vcs="vcs")
    assert service.process.argv == (
        f"/w/stack/cell/proxy/{backend}", "-listen", "127.0.0.1:8081", "-cacheDir", "/w/stack/cell/proxy/cache",
        "-proxy", "http://127.0.0.1:8082", "-exclude", "mycompany.com/go,b.example",
    )  # fmt: skip
    (source,) = (file.content for file in service.files if isinstance(file.content, GoSource))
    assert (source.module.name, source.package) == (backend, package)
    assert (source.module / "go.mod").is_file()
    assert service.scratch_folders == (
        PurePosixPath("/w/stack/cell/proxy/cache"),
        PurePosixPath("/w/stack/cell/proxy/scratch"),
    )
    env = service.process.env
    assert env["GOINSECURE"] == "mycompany.com/go,b.example"
    assert (env["HTTP_PROXY"], env["HTTPS_PROXY"], env["NO_PROXY"]) == (*2 * ("http://10.0.0.2:8000",), "127.0.0.1")
    assert env["PATH"].split(":") == ["/usr/local/go/bin", "/usr/bin", "/usr/local/bin", "/bin"]
    assert (env["GOENV"], env["GOTOOLCHAIN"]) == ("off", "local")


def test_athens_is_a_binary_of_the_host_with_settings_in_its_environment(
    place: Callable[..., ServicePlacement],
) -> None:
    options = ProxyOptions.model_validate(BASE | {"backend": "athens", "vanity": "names", "vcs": "vcs"})
    here = place("proxy")
    endpoint = Endpoint("one", "http1", "127.0.0.1", 8081)
    with pytest.raises(UnsupportedError, match=r"no athens: the inventory may name one \(hosts\.one\.programs: "):
        ATHENS.render(RenderRequest("proxy", options, here, endpoint, PEERS))
    programs = {**here.programs, "athens": HostProgram("/opt/athens", ())}
    service = ATHENS.render(RenderRequest("proxy", options, replace(here, programs=programs), endpoint, PEERS))
    assert service.process.argv == ("/opt/athens",)
    env = service.process.env
    assert (env["ATHENS_PORT"], env["GO_BINARY_PATH"]) == ("127.0.0.1:8081", "/usr/local/go/bin/go")
    assert env["ATHENS_DISK_STORAGE_ROOT"] == "/w/stack/cell/proxy/cache"
    of_go = dict(pair.split("=", 1) for pair in env["ATHENS_GO_BINARY_ENV_VARS"].split(";"))
    assert (of_go["GOPROXY"], of_go["GONOPROXY"]) == ("http://127.0.0.1:8082", "mycompany.com/go,b.example")
    assert (of_go["GOENV"], of_go["GOFLAGS"], of_go["GIT_CONFIG_GLOBAL"]) == ("off", "-modcacherw", "/dev/null")
    assert "GIT_SSH_COMMAND" in env


def test_without_git_server_the_ssh_settings_of_the_login_user_apply(place: Callable[..., ServicePlacement]) -> None:
    service = render(place, "goproxyio", upstream="https://proxy.example")
    assert "GIT_SSH_COMMAND" not in service.process.env
    assert "HTTP_PROXY" not in service.process.env
    assert "https://proxy.example" in service.process.argv


def test_each_server_has_its_own_host_key() -> None:
    assert host_key_name(PEERS["vcs"]) != host_key_name(Endpoint("vcs", "ssh", "10.0.0.3", 2223, user="bench"))


def test_capitals_are_escaped() -> None:
    assert escape_path("github.com/BurntSushi/toml") == "github.com/!burnt!sushi/toml"
    assert path_expression("a.example/*/Team-?") == r"a\.example/[^/]*/!team\-[^/]"


def test_the_upstream_serves_the_files_of_its_modules(place: Callable[..., ServicePlacement]) -> None:
    options = UpstreamOptions.model_validate(
        {"backend": "module-upstream", "listen": 8083, "modules": ["a.example/B@v1.0.0", "a.example/B@v1.1.0"]}
    )
    service = MODULE_UPSTREAM.render(
        RenderRequest("up", options, place("up"), Endpoint("one", "http1", "10.0.0.1", 8083), {})
    )
    files = {str(file.path.relative_to("/w/stack/cell/up")): file.content for file in service.files}
    assert files["modules/a.example/!b/@v/list"] == b"v1.0.0\nv1.1.0\n"
    assert files["modules/a.example/!b/@v/v1.1.0.zip"] == ModuleFile("a.example/B@v1.1.0", "zip")
    assert len(files) == 8
