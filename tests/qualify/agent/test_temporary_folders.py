"""Temporary folders that take long to remove."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from benchkit.agent.operations import MakeTemporaryFolder, WriteTemporaryFile
from benchkit.hosts.agent_link import AgentLink


def test_all_is_removed_when_the_close_returns_however_long_it_takes(launch: Callable[..., AgentLink]) -> None:
    link = launch()
    workdir = Path(str(link.hello().workdir))
    link.request(WriteTemporaryFile(path="stack/key.pem", mode=384, body=b"s3cr3t"))
    link.request(MakeTemporaryFolder(path="stack/large"))  # removed before the key
    for number in range(4000):
        (workdir / "stack" / "large" / str(number)).touch()
    assert link.close(60) == []
    assert list((workdir / "stack").iterdir()) == []
