"""An HTTP server of two worker processes: `workers.py PORT even|uneven`; if uneven, one gets all connections."""

from __future__ import annotations

import asyncio
import os
import socket
import sys

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 12\r\n\r\nHello World\n"


class Answering(asyncio.Protocol):
    """A connection: each part that ends with a blank line is a request."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer each request."""
        self._transport.write(ANSWER * data.count(b"\r\n\r\n"))


async def serve(port: int) -> None:
    """Serve on a listening socket of this process's own."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    listener.bind(("", port))
    listener.listen(511)
    server = await asyncio.get_running_loop().create_server(Answering, sock=listener)
    await server.serve_forever()


def main(port: int, mode: str) -> None:
    """Start both workers, and wait for them."""
    for number in range(2):
        if os.fork() == 0:
            is_idle = number == 1 and mode == "uneven"
            asyncio.run(asyncio.sleep(3600) if is_idle else serve(port))
            return
    os.wait()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
