"""Compression of raw files, in the format of the `zstd` program."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from benchkit.errors import InputError
from benchkit.files import MAX_BYTES, open_regular
from benchkit.units import size

_CHUNK = 1 << 20


def compress(content: bytes) -> bytes:
    """Return content as one frame of Zstandard (RFC 8878)."""
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(content)
    return bytes(sink.getvalue())


def decompress(path: Path, max_bytes: int = MAX_BYTES) -> bytes:
    """Return the content of a compressed file.

    Raises InputError for a damaged one and for one with too much content.
    """
    content = bytearray()
    with open_regular(path) as file:
        try:
            with pa.CompressedInputStream(file, "zstd") as stream:
                while chunk := stream.read(_CHUNK):
                    content += chunk
                    if len(content) > max_bytes:
                        raise InputError(
                            "the raw file is too large",
                            where=str(path),
                            why=f"its content exceeds {size(max_bytes)}",
                            hint="benchkit stores no such file: restore it from a backup, or remove the run",
                        )
        except (OSError, pa.ArrowException) as error:
            if isinstance(error, OSError) and error.errno is not None:  # of the disk, not of the content
                raise
            raise _damaged(path, str(error)) from None
    if not content:  # no file without content is compressed
        raise _damaged(path, "it is empty")
    return bytes(content)


def _damaged(path: Path, why: str) -> InputError:
    return InputError(
        "the raw file is damaged",
        where=str(path),
        why=why,
        hint="restore it from a backup; `benchkit results check` shows what else is damaged",
    )
