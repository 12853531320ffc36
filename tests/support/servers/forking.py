"""A server that works in itself or, with `fork`, in a child for each request, which nobody waits for."""

import os
import signal
import socket
import sys

WORK = 600_000
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nok\n"


def answer(client: socket.socket) -> None:
    """Read one request, work for some milliseconds, and answer."""
    received = b""
    while b"\r\n\r\n" not in received:
        piece = client.recv(4096)
        if not piece:
            return
        received += piece
    sum(range(WORK))
    client.sendall(ANSWER)


def main() -> None:
    """Serve on the port that is given."""
    forks = sys.argv[2:] == ["fork"]
    if forks:
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    listener = socket.create_server(("", int(sys.argv[1])), backlog=512)
    while True:
        client, _ = listener.accept()
        if not forks or os.fork() == 0:
            answer(client)
            if forks:
                os._exit(0)
        client.close()


main()
