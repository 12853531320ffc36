"""A server with two threads and the shortest listen queue: other connections wait for one of its two to be closed."""

import socket
import sys
import threading

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello\n"


def serve(listening: socket.socket) -> None:
    while True:
        connection, _ = listening.accept()
        with connection:
            try:
                while connection.recv(4096):
                    connection.sendall(ANSWER)
            except ConnectionError:
                pass


listening = socket.create_server(("", int(sys.argv[1])), backlog=0)
threading.Thread(target=serve, args=(listening,), daemon=True).start()
serve(listening)
