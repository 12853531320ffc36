"""The backend `python-http`: an HTTP/1.1 server of the host's Python, in one thread."""

from __future__ import annotations

from pydantic import Field

from benchkit.services.backend import Backend, RenderRequest, ServiceOptions
from benchkit.services.service import File, Process, Service

SERVER = """\
import asyncio, sys

async def serve(reader, writer):
    try:
        while True:
            head = await reader.readuntil(b"\\r\\n\\r\\n")
            sizes = [line[15:] for line in head.lower().split(b"\\r\\n") if line.startswith(b"content-length:")]
            await reader.readexactly(int(sizes[0]) if sizes else 0)
            writer.write(ANSWER)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()

async def main():
    server = await asyncio.start_server(serve, sys.argv[1], int(sys.argv[2]))
    async with server:
        await server.serve_forever()

BODY = sys.argv[3].encode()
ANSWER = b"HTTP/1.1 200 OK\\r\\nContent-Length: %d\\r\\n\\r\\n%b" % (len(BODY), BODY)
asyncio.run(main())
"""


class PythonHttpOptions(ServiceOptions):
    """Options of a server in Python."""

    text: str = Field(default="hello", description="body of every answer", examples=["hi"])


class PythonHttp(Backend[PythonHttpOptions]):
    """A server in Python that answers every request with a text."""

    name = "python-http"
    options = PythonHttpOptions

    def programs(self, options: PythonHttpOptions) -> tuple[str, ...]:
        """Return the host's Python."""
        del options
        return ("python3",)

    def render(self, request: RenderRequest[PythonHttpOptions]) -> Service:
        """Return one server."""
        options, place = request.options, request.place
        script = place.folder / "server.py"
        address = (str(request.endpoint.address), str(request.endpoint.port))
        argv = (place.program("python3").path, "-I", str(script), *address, options.text)
        cpus = place.select_cpus(options.cpus, "cpus")
        return Service(
            name=request.name,
            backend=self.name,
            host=place.host,
            folder=place.folder,
            files=(File(script, SERVER.encode()),),
            checks=(),
            process=Process(argv, cpus, place.file_limit(options.nofile)),
            endpoint=request.endpoint,
            parallelism=1,
        )


PYTHON_HTTP = PythonHttp()
