"""Servers of Python's standard library and of its frameworks: `python_servers.py KIND PORT`."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import socket
import struct
import sys
from collections.abc import Callable, Iterable
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer
from wsgiref.simple_server import WSGIRequestHandler, make_server

KIND, PORT = sys.argv[1], int(sys.argv[2])
BODY = b"hello\n"
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello\n"
FAULT_EVERY = 500

numbers = itertools.count(1)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.0" if KIND == "http10" else "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(BODY)))
        self.end_headers()
        self.wfile.write(BODY)

    def log_message(self, *_arguments: object) -> None:
        pass


class QuietHandler(WSGIRequestHandler):
    def log_message(self, *_arguments: object) -> None:
        pass


def application(_environment: object, start: Callable[[str, list[tuple[str, str]]], object]) -> Iterable[bytes]:
    start("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "6")])
    return [BODY]


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer requests; close or reset the connection now and then, or keep a request for ever, as the kind says."""
    with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
        while await reader.readuntil(b"\r\n\r\n"):
            is_fault = next(numbers) % FAULT_EVERY == 0
            if KIND == "resets" and is_fault:
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                writer.transport.abort()
                return
            if KIND == "hangs" and is_fault:
                await asyncio.sleep(3600)
            if KIND == "two-writes":
                writer.write(ANSWER[: -len(BODY)])
                await writer.drain()
                writer.write(BODY)
            else:
                writer.write(ANSWER)
            if KIND == "closes" and is_fault:
                break
    writer.close()


async def serve_asyncio() -> None:
    server = await asyncio.start_server(answer, port=PORT, backlog=1024)
    await server.serve_forever()


def serve_aiohttp() -> None:
    from aiohttp import web  # noqa: PLC0415 - only this server needs it

    async def hello(_request: web.Request) -> web.Response:
        return web.Response(body=BODY)

    app = web.Application()
    app.add_routes([web.get("/", hello)])
    web.run_app(app, port=PORT, print=None, access_log=None)


def serve_flask() -> None:
    from flask import Flask  # noqa: PLC0415 - only this server needs it

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    app = Flask("hello")
    app.add_url_rule("/", view_func=lambda: BODY)
    app.run("0.0.0.0", PORT, threaded=True)  # noqa: S104 - the load comes from another host


async def serve_tornado() -> None:
    from tornado.web import Application, RequestHandler  # noqa: PLC0415 - only this server needs it

    class Hello(RequestHandler):
        def get(self) -> None:
            self.write(BODY)

    Application([("/", Hello)], log_function=lambda _handler: None).listen(PORT)
    await asyncio.Event().wait()


match KIND:
    case "http10" | "http11":
        HTTPServer(("", PORT), Handler).serve_forever()
    case "threading":
        ThreadingHTTPServer(("", PORT), Handler).serve_forever()
    case "wsgiref":
        make_server("", PORT, application, handler_class=QuietHandler).serve_forever()
    case "aiohttp":
        serve_aiohttp()
    case "flask":
        serve_flask()
    case "tornado":
        asyncio.run(serve_tornado())
    case _:
        asyncio.run(serve_asyncio())
