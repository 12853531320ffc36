"""Temporary folders that take long to remove."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from benchkit.agent.files import FileStore
from benchkit.hosts.agent_link import AgentLink


def test_all_is_removed_when_the_close_returns_however_long_it_takes(launch: Callable[..., AgentLink]) -> None:
    link = launch()
    workdir = Path(str(link.hello().workdir))
    link.call(FileStore.write_temporary, path="stack/key.pem", mode=384, body=b"s3cr3t")
    link.call(FileStore.mkdir_temporary, path="stack/large")  # removed before the key
    for number in range(4000):
        (workdir / "stack" / "large" / str(number)).touch()
    assert link.close(60) == []
    assert list((workdir / "stack").iterdir()) == []
