"""Compression of raw files, in the format of the `zstd` program."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa


def compress(content: bytes) -> bytes:
    """Return content as one frame of Zstandard (RFC 8878)."""
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(content)
    return bytes(sink.getvalue())


def decompress(path: Path) -> bytes:
    """Return the content of a compressed file."""
    with path.open("rb") as file, pa.CompressedInputStream(file, "zstd") as stream:
        return bytes(stream.read())
