"""Files that go with the agent that wrote them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from benchkit.hosts.agent_link import AgentLink


def test_a_temporary_file_has_one_copy_that_goes_with_the_agent(launch: Callable[..., AgentLink]) -> None:
    link = launch()
    workdir = Path(str(link.hello().fields["workdir"]))
    args, secret = {"path": "stack/app/key.pem", "mode": 0o600}, b"s3cr3t-bytes"
    assert link.request("write_temporary", args, secret).fields["changed"] is True
    assert link.request("write_temporary", args, secret).fields["changed"] is False
    assert link.request("write_temporary", args, secret * 2).fields["changed"] is True
    file = workdir / "stack" / "app" / "key.pem"
    assert (file.read_bytes(), file.stat().st_mode & 0o777, file.stat().st_nlink) == (secret * 2, 0o600, 1)
    assert [record["kind"] for record in link.request("records", {}).fields["records"]] == ["file"]
    copies = [path for path in workdir.rglob("*") if path.is_file() and secret in path.read_bytes()]
    assert copies == [file]
    assert link.close(10) == []
    assert not [path for path in workdir.rglob("*") if path.is_file() and secret in path.read_bytes()]


def test_all_is_removed_when_the_close_returns_however_long_it_takes(launch: Callable[..., AgentLink]) -> None:
    link = launch()
    workdir = Path(str(link.hello().fields["workdir"]))
    link.request("write_temporary", {"path": "stack/key.pem", "mode": 0o600}, b"s3cr3t")
    link.request("mkdir_temporary", {"path": "stack/large"})  # removed before the key
    for number in range(4000):
        (workdir / "stack" / "large" / str(number)).touch()
    assert link.close(10) == []
    assert list((workdir / "stack").iterdir()) == []
