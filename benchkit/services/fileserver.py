"""Go's http.FileServer on files that it makes on its host: one of them at `/`, or the listing of their folder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from benchkit.services.backend import Request
from benchkit.services.go_server import BodySize, GoServerOptions, go_backend


class FileServerOptions(GoServerOptions):
    """A net/http server of a file, or of a folder's listing."""

    body_size: BodySize | None = Field(default=None, description="bytes of each file; absent: 12")
    listing: Annotated[int, Field(strict=True, ge=1, le=100_000)] | None = Field(
        default=None, description="serve the listing of a folder with so many files, in place of one file"
    )


def arguments(request: Request) -> Sequence[str]:
    """Where the files stand, and how many are listed."""
    options = request.options
    if not isinstance(options, FileServerOptions):
        raise TypeError(f"{request.name}: options of another backend")
    listing = [] if options.listing is None else ["-listing", str(options.listing)]
    return ["-root", str(request.place.folder / "www"), *listing]


FILESERVER = go_backend("fileserver", FileServerOptions, arguments=arguments)
