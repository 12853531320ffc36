"""Slow and broken clients of HTTP/1.1, as a load beside the measured one: `python3 noise.py CONFIG`.

The program imports no module of benchkit: the controller sends it to a load host as one file. Twice a second it prints
a JSON line with the connections it holds and its totals since the start. It ends at SIGTERM or after `seconds`.
"""

import asyncio
import contextlib
import json
import os
import signal
import socket
import ssl
import sys
import time
from typing import Any, Awaitable, Callable, Dict, Optional, Tuple

READ_EVERY_S = 0.1
"""Time between two reads of a slow reader."""
RECEIVE_BUFFER_BYTES = 4096
"""Size of the receive buffer of a slow reader, which the kernel doubles (socket(7), SO_RCVBUF)."""
REOPEN_S = 0.1
"""Time after which a closed or refused connection is opened again."""
REPORT_EVERY_S = 0.5
NICE = 10
"""Niceness (nice(1)), so that the load tool on the same core runs first."""
ANSWER_S = 2.0
"""Time for the answer to a malformed request."""
ANSWER_BYTES = 65536
"""Bytes of that answer that are read."""
LAST_CHUNK, MOST_BYTES = b"0\r\n\r\n", sys.maxsize // 2
NO_ANSWER, CLOSED = "none", "closed"

MALFORMED: Tuple[bytes, ...] = (
    b"GET\r\n\r\n",
    b"GET %(path)s HTTP/9.9\r\nHost: %(host)s\r\n\r\n",
    b"GET %(path)s HTTP/1.1\r\nHost: %(host)s\r\nno colon\r\n\r\n",
    b"POST %(path)s HTTP/1.1\r\nHost: %(host)s\r\nContent-Length: -1\r\n\r\n",
    b"POST %(path)s HTTP/1.1\r\nHost: %(host)s\r\nContent-Length: x\r\n\r\n",
    b"GET %(path)s HTTP/1.1\r\nHost: %(host)s\r\nX-Nul: \x00\r\n\r\n",
)
"""Malformed requests, sent in turns: each breaks a rule of RFC 9112 (3, 2.3, 5, 6.3) or RFC 9110 (5.5)."""

Stream = Tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Clients:
    """The clients of one server."""

    def __init__(self, config: Dict[str, Any]) -> None:
        self._config = config
        self._request = b"GET %(path)s HTTP/1.1\r\nHost: %(host)s\r\n" % self._texts
        self._tls: Optional[ssl.SSLContext] = None
        if config["tls"]:
            self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            self._tls.check_hostname = False  # the load tool verifies the certificate
            self._tls.verify_mode = ssl.CERT_NONE
        self._held = {"slow_readers": 0, "half_open": 0}
        self._done = {"read_bytes": 0, "responses": 0, "malformed": 0, "refused": 0, "closed": 0}
        self._answers: Dict[str, int] = {}

    @property
    def _texts(self) -> Dict[bytes, bytes]:
        return {b"path": self._config["path"].encode("latin-1"), b"host": self._config["host"].encode("latin-1")}

    async def run(self) -> None:
        """Run all clients until cancelled, and report."""
        readers = self._config["slow_readers"]
        # Readers start staggered: reading all at once, they would keep the load tool from its core for a while.
        clients = [self._keep("slow_readers", self._read_slowly, READ_EVERY_S * i / readers) for i in range(readers)]
        clients += [self._keep("half_open", self._send_half) for _ in range(self._config["half_open"])]
        if self._config["malformed_per_s"]:
            clients.append(self._send_malformed())
        tasks = [asyncio.ensure_future(each) for each in (*clients, self._report())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            for task in tasks:
                if task.done():
                    task.result()
        finally:
            self._print()

    async def _open(self, buffer_bytes: Optional[int] = None) -> Stream:
        sock = socket.socket(socket.AF_INET6 if ":" in self._config["address"] else socket.AF_INET)
        try:
            sock.settimeout(0)
            if buffer_bytes is not None:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
            await asyncio.get_event_loop().sock_connect(sock, (self._config["address"], self._config["port"]))
            name = self._config["host"].rpartition(":")[0] or self._config["host"] if self._tls else None
            return await asyncio.open_connection(
                sock=sock, ssl=self._tls, server_hostname=name, limit=buffer_bytes or ANSWER_BYTES
            )
        except BaseException:
            sock.close()
            raise

    async def _keep(
        self,
        kind: str,
        use: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
        delay_s: float = 0.0,
    ) -> None:
        """Hold a connection of this kind; open it again where the server closes it."""
        await asyncio.sleep(delay_s)
        while True:
            try:
                stream = await self._open(RECEIVE_BUFFER_BYTES if kind == "slow_readers" else None)
            except OSError:
                self._done["refused"] += 1
            else:
                self._held[kind] += 1
                try:
                    await use(*stream)
                except OSError:
                    pass  # a reset by the server counts as closed
                finally:
                    self._held[kind] -= 1
                    stream[1].close()
                self._done["closed"] += 1
            await asyncio.sleep(REOPEN_S)

    async def _read_slowly(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Read response after response, some bytes at a time, until the server closes the connection."""
        each = max(1, round(self._config["read_bytes_per_s"] * READ_EVERY_S))
        while True:
            writer.write(self._request + b"\r\n")
            response = Response()
            while not response.is_whole:
                piece = await reader.read(each)
                if not piece:
                    return
                self._done["read_bytes"] += len(piece)
                response.add(piece)
                await asyncio.sleep(READ_EVERY_S)
            self._done["responses"] += 1

    async def _send_half(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Send an incomplete request, and wait until the server closes the connection."""
        writer.write(self._request + b"X-Half: ")
        while await reader.read(ANSWER_BYTES):
            pass

    async def _send_malformed(self) -> None:
        number, started = 0, time.monotonic()
        while True:
            await asyncio.sleep(max(0.0, started + number / self._config["malformed_per_s"] - time.monotonic()))
            answer = await self._answer_to(MALFORMED[number % len(MALFORMED)] % self._texts)
            if answer is not None:
                self._done["malformed"] += 1
                self._answers[answer] = self._answers.get(answer, 0) + 1
            number += 1

    async def _answer_to(self, request: bytes) -> Optional[str]:
        """Return the status of the answer to a request, or why none came; None where the request could not be sent."""
        try:
            reader, writer = await self._open()
        except OSError:
            self._done["refused"] += 1
            return None
        # Not `wait_for`: before Python 3.12 it may swallow a cancellation (python/cpython#86296).
        timer = asyncio.get_event_loop().call_later(ANSWER_S, reader.set_exception, asyncio.TimeoutError())
        try:
            writer.write(request)
            line = await reader.readline()
        except asyncio.TimeoutError:
            return NO_ANSWER
        except (OSError, ValueError):  # reset, or a line that is too long
            return CLOSED
        finally:
            timer.cancel()
            writer.close()
        words = line.split()
        return words[1].decode("latin-1") if len(words) > 1 and words[0].startswith(b"HTTP/") else CLOSED

    async def _report(self) -> None:
        while True:
            self._print()
            await asyncio.sleep(REPORT_EVERY_S)

    def _print(self) -> None:
        line = {"t_ns": time.monotonic_ns(), "held": self._held, "done": self._done, "answers": self._answers}
        print(json.dumps({**line, "cpu_s": time.process_time()}), flush=True)


class Response:
    """A response that is being read: it ends after its Content-Length, or with its last chunk."""

    def __init__(self) -> None:
        self._head = b""
        self._tail = b""
        self._missing: Optional[int] = None
        self.is_whole = False

    def add(self, piece: bytes) -> None:
        """Add the next bytes of the response."""
        self._tail = (self._tail + piece)[-len(LAST_CHUNK) :]
        if self._missing is not None:
            self._missing -= len(piece)
        else:
            self._head += piece
            header, end, body = self._head.partition(b"\r\n\r\n")
            if not end:
                return
            fields = dict(line.lower().partition(b":")[::2] for line in header.split(b"\r\n")[1:])
            self._missing = int(fields.get(b"content-length", sys.maxsize)) - len(body)
        self.is_whole = self._missing <= 0 or (self._missing > MOST_BYTES and self._tail == LAST_CHUNK)


async def main(config: Dict[str, Any]) -> None:
    """Run the clients for the time of the configuration, or until SIGTERM."""
    running = asyncio.ensure_future(Clients(config).run())
    asyncio.get_event_loop().add_signal_handler(signal.SIGTERM, running.cancel)
    with contextlib.suppress(asyncio.CancelledError, asyncio.TimeoutError):
        await asyncio.wait_for(running, config["seconds"])


if __name__ == "__main__":
    os.nice(NICE)
    asyncio.run(main(json.loads(sys.argv[1])))
