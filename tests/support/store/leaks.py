"""Search of stored files for a secret."""

from __future__ import annotations

import gzip
from pathlib import Path

import pandas as pd

from benchkit.store.durable_files import decompress


def leaks(secret: str, *folders: Path) -> list[Path]:
    """Return the files with the secret, unpacked: compressed ones, and the cells of Parquet tables."""
    return [path for folder in folders for path in folder.rglob("*") if path.is_file() and secret in unpacked(path)]


def unpacked(path: Path) -> str:
    """Return a file as text, with what is compressed in it."""
    content = path.read_bytes()
    if path.suffix == ".parquet":
        content += pd.read_parquet(path, partitioning=None).to_csv().encode()
    elif path.suffix == ".zst":
        content += decompress(path)
    elif path.suffix == ".gz":
        content += gzip.decompress(content)
    return content.decode("latin-1")
