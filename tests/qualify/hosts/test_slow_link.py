"""A slow link: the agent arrives, files arrive, and what waits behind them is not taken for lost."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchkit.agent.files import FileStore
from benchkit.hosts import agent_link, files, ssh
from benchkit.hosts.connections import connect
from benchkit.hosts.files import PlacedFile

if TYPE_CHECKING:
    from tests.support.hosts.fixtures import OddServer


TIMES_FASTER = 2
"""The link has this many times 64 kbit/s, and times that a slow link may take are as much shorter."""
BYTES_PER_S = 8000 * TIMES_FASTER
BURST_S = 0.5
"""Time that the link catches up: on a busy machine each piece is late, and the link would be slower than it says."""
PIECE = 800
BUFFER = 4096
SHORTENED = (
    (agent_link, "ANSWER_TIMEOUT_S"),
    (agent_link, "HEARTBEAT_S"),
    (agent_link, "HEARTBEAT_TIMEOUT_S"),
    (files, "PROGRESS_S"),
    (ssh, "RECEIVE_TIMEOUT_S"),
)


def copy(source: socket.socket, target: socket.socket, bytes_per_s: float | None) -> None:
    """Copy from one connection to another until either ends, at a rate if there is one."""
    due_s = 0.0
    try:
        while piece := source.recv(PIECE):
            target.sendall(piece)
            if bytes_per_s is not None:
                due_s = max(due_s, time.monotonic() - BURST_S) + len(piece) / bytes_per_s
                time.sleep(max(0.0, due_s - time.monotonic()))
        target.shutdown(socket.SHUT_WR)
    except OSError:
        target.close()


@contextmanager
def slow_way_to(address: str, port: int) -> Iterator[int]:
    """Listen on a port of this machine, and forward the first connection to a host at `BYTES_PER_S`."""
    with socket.socket() as listener, socket.socket() as far:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)

        def forward() -> None:
            near, _ = listener.accept()
            with near:
                far.connect((address, port))
                threading.Thread(target=copy, args=(far, near, None), daemon=True).start()
                copy(near, far, BYTES_PER_S)

        threading.Thread(target=forward, daemon=True).start()
        yield listener.getsockname()[1]


def test_files_arrive_over_a_slow_link(
    odd_server: OddServer, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, name in SHORTENED:
        monkeypatch.setattr(module, name, getattr(module, name) / TIMES_FASTER)
    content = os.urandom(160_000)
    assert len(content) / BYTES_PER_S - BURST_S > agent_link.ANSWER_TIMEOUT_S
    caplog.set_level(logging.WARNING, "benchkit.hosts")
    with slow_way_to(odd_server.spec.address, odd_server.ports["plain"]) as port:
        known_hosts = tmp_path / "known_hosts"
        known_hosts.write_text(f"[127.0.0.1]:{port} {odd_server.host_key}\n")
        workdir = f"{odd_server.spec.workdir}-slow"
        update = {"address": "127.0.0.1", "port": port, "known_hosts": known_hosts, "workdir": workdir}
        with connect(odd_server.spec.model_copy(update=update)) as host:
            uploading = threading.Thread(target=host.files.place, args=([PlacedFile("large", content)],))
            uploading.start()
            time.sleep(2 / TIMES_FASTER)
            assert host.processes.run(["true"]).ok, "it waits behind the upload"
            uploading.join()
            assert host.call(FileStore.list_folder, "store")
            host.call(FileStore.remove, "large")
    assert [message for message in caplog.messages if "sut: uploading large: " in message]
