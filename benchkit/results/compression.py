"""Raw files, compressed as the `zstd` program does it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa


def compressed(content: bytes) -> bytes:
    """Content as one frame of Zstandard (RFC 8878)."""
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(content)
    return bytes(sink.getvalue())


def uncompressed(path: Path) -> bytes:
    """The content of a file so compressed."""
    with path.open("rb") as file, pa.CompressedInputStream(file, "zstd") as stream:
        return bytes(stream.read())
