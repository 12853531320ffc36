"""Module proxies behind an upstream that fails or sends truncated files, and then recovers."""

from __future__ import annotations

import http.client
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchkit.plugins.go_modules.proxy import CACHE, DOWNLOADS, GOPROXY, GOPROXYIO
from benchkit.plugins.go_modules.upstream import MODULE_GUARD, MODULE_UPSTREAM
from benchkit.services.backend import AnyBackend, RenderRequest
from benchkit.services.go_build import build, find_go
from benchkit.services.placement import Endpoint, HostProgram, ServicePlacement
from benchkit.services.service import ControllerFile, GoSource, Service

MODULE = "github.com/beorn7/perks"
ZIP = f"/{MODULE}/@v/v1.0.1.zip"


class Stack:
    """Rendered services that run on loopback."""

    def __init__(self, place: Callable[..., ServicePlacement], folder: Path) -> None:
        self._place = place
        self._folder = folder
        self._peers: dict[str, Endpoint] = {}

    @contextmanager
    def started(self, name: str, backend: AnyBackend, **options: Any) -> Iterator[Endpoint]:  # noqa: ANN401 - what YAML has
        """Start a service and wait for its socket; a second start of the same name has the same address."""
        endpoint = self._peers.setdefault(name, Endpoint("one", "http1", "127.0.0.1", _free_port()))
        document = {"backend": backend.name, "listen": endpoint.authority, **options}
        here_place = self._place(name, self._folder, address="127.0.0.1")
        here_place = replace(here_place, programs={**here_place.programs, "go": HostProgram(find_go(), (1, 21))})
        service = backend.render(
            RenderRequest(name, backend.options.model_validate(document), here_place, endpoint, self._peers)
        )
        _place_files(service)
        with (
            (self._folder / f"{name}.log").open("ab") as log,
            subprocess.Popen(
                service.process.argv, cwd=service.folder, env=os.environ | service.process.env, stderr=log, stdout=log
            ) as process,
        ):
            try:
                _wait_open(endpoint, process)
                yield endpoint
            finally:
                process.terminate()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _place_files(service: Service) -> None:
    for file in service.files:
        path = Path(file.path)
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(file.content, GoSource):
            source = file.content
            binary = build(source.module, goos=source.goos, goarch=source.goarch, package=source.package)
            shutil.copyfile(binary, path)
        else:
            path.write_bytes(file.content.read() if isinstance(file.content, ControllerFile) else bytes(file.content))
        path.chmod(file.mode)
    for folder in service.scratch_folders:
        Path(folder).mkdir(parents=True, exist_ok=True)


def _wait_open(endpoint: Endpoint, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 120
    while True:
        assert process.poll() is None
        try:
            socket.create_connection((str(endpoint.address), endpoint.port or 0), 1).close()
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        else:
            return


def get(endpoint: Endpoint, path: str) -> tuple[int, bytes]:
    """Return status and body of a response."""
    connection = http.client.HTTPConnection(str(endpoint.address), endpoint.port, timeout=60)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


@pytest.mark.parametrize("fault", ["half", "500"])
@pytest.mark.parametrize("backend", [GOPROXYIO, GOPROXY], ids=lambda backend: backend.name)
def test_a_broken_download_is_not_cached_and_the_next_one_succeeds(
    place: Callable[..., ServicePlacement], tmp_path: Path, backend: AnyBackend, fault: str
) -> None:
    stack, cache = Stack(place, tmp_path), tmp_path / "proxy" / CACHE / DOWNLOADS
    modules = {"modules": [f"{MODULE}@v1.0.1"]}
    with ExitStack() as running:
        upstream = "upstream"
        with stack.started("upstream", MODULE_UPSTREAM, **modules, inject_fault=fault):
            if backend is GOPROXYIO:  # without a guard it would cache broken files
                running.enter_context(stack.started("guard", MODULE_GUARD, upstream="upstream"))
                upstream = "guard"
            options = {"upstream": upstream, "private": ["mycompany.com/go"]}
            proxy = running.enter_context(stack.started("proxy", backend, **options))
            status, text = get(proxy, ZIP)
            assert status >= 400, text
            assert [path for path in cache.rglob("*.zip*") if path.is_file() and path.suffix != ".lock"] == []
        with stack.started("upstream", MODULE_UPSTREAM, **modules):
            status, content = get(proxy, ZIP)
        whole = (tmp_path / "upstream" / "modules" / ZIP.lstrip("/")).read_bytes()
        assert (status, content) == (200, whole)
        assert (cache / ZIP.lstrip("/")).read_bytes() == whole
        assert get(proxy, ZIP) == (200, whole)  # the upstream is stopped now
