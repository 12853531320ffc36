"""Go's http.FileServer on files that it creates on its host: one of them at `/`, or a listing of their folder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from benchkit.services.backend import RenderRequest
from benchkit.services.go_server import GoServer, GoServerOptions
from benchkit.services.server_options import BodySize


class FileServerOptions(GoServerOptions):
    """Options of a net/http server of a file, or of a folder's listing."""

    body_size: BodySize | None = Field(default=None, description="bytes of each file; absent: 12", examples=[1024])
    listing: Annotated[int, Field(strict=True, ge=1, le=100_000)] | None = Field(
        default=None,
        description="serve the listing of a folder with this many files instead of one file",
        examples=[100],
    )


class FileServer(GoServer[FileServerOptions]):
    """A Go server with two more arguments: the folder of its files, and the length of the listing."""

    def arguments(self, request: RenderRequest[FileServerOptions]) -> Sequence[str]:
        """Return the folder of the files, and the number of files to list."""
        listing = request.options.listing
        listed = [] if listing is None else ["-listing", str(listing)]
        return ["-root", str(request.place.folder / "www"), *listed]


FILESERVER = FileServer("fileserver", FileServerOptions)
