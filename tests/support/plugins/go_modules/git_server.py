"""A git server rendered for this machine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from benchkit.plugins.go_modules.git_server import GIT_SSH, GitServerOptions, RepositoryContent
from benchkit.services.backend import RenderRequest
from benchkit.services.placement import Endpoint, ServicePlacement
from benchkit.services.service import ControllerFile, Service, ServiceFile

OPTIONS = {
    "backend": "git-ssh",
    "listen": 2222,
    "readers": ("proxy", "developers"),
    "repositories": {
        "module1": RepositoryContent(module="a.example/go/module1", versions=2),
        "new-*": RepositoryContent(versions=1),
        "new-old": RepositoryContent(module="a.example/go/new-old"),
    },
}
SERVER = Endpoint("vcs", "ssh", "10.0.0.1", 2222, user="bench")


@pytest.fixture
def service(place: Callable[..., ServicePlacement], tmp_path: Path) -> Service:
    """Git server rendered for this machine, with its files placed."""
    folder = tmp_path / "stack" / "cell"
    request = RenderRequest("vcs", GitServerOptions.model_validate(OPTIONS), place("vcs", folder), SERVER, {})
    service = GIT_SSH.render(request)
    for file in service.files:
        write_file(file)
    return service


def write_file(file: ServiceFile) -> None:
    """Write a file of a service where its host has it."""
    path = Path(file.path)
    path.parent.mkdir(parents=True, exist_ok=True)
    content = file.content.read() if isinstance(file.content, ControllerFile) else file.content
    assert isinstance(content, bytes)
    path.write_bytes(content)
    path.chmod(file.mode)
