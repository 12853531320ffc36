"""Files that go with the agent that wrote them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from benchkit.agent.files import FileStore
from benchkit.agent.undo import Undo
from benchkit.hosts.agent_link import AgentLink


def test_a_temporary_file_has_one_copy_that_goes_with_the_agent(launch: Callable[..., AgentLink]) -> None:
    link = launch()
    workdir = Path(str(link.hello().workdir))
    path, secret = "stack/app/key.pem", b"s3cr3t-bytes"
    assert link.call(FileStore.write_temporary, path, 0o600, body=secret)
    assert not link.call(FileStore.write_temporary, path, 0o600, body=secret)
    assert link.call(FileStore.write_temporary, path, 0o600, body=secret * 2)
    file = workdir / "stack" / "app" / "key.pem"
    assert (file.read_bytes(), file.stat().st_mode & 0o777, file.stat().st_nlink) == (secret * 2, 0o600, 1)
    assert [record.kind for record in link.call(Undo.traces).records] == ["file"]
    copies = [path for path in workdir.rglob("*") if path.is_file() and secret in path.read_bytes()]
    assert copies == [file]
    assert link.close(60) == []
    assert not [path for path in workdir.rglob("*") if path.is_file() and secret in path.read_bytes()]
