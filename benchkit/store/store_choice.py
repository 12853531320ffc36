"""The store that a command or a function reads: a folder, or one below a URL."""

from __future__ import annotations

import os
from pathlib import Path

from benchkit.store.remote_files import is_url
from benchkit.store.store import ENVIRONMENT, Store, existing_store, store_path


def open_store(option: str | Path | Store | None = None, *, must_exist: bool = False) -> Store:
    """Return the store to read: the option, else BENCHKIT_STORE, else ./results.

    Raises InputError for what is neither a folder nor a usable URL, and with `must_exist` for a missing folder. A
    store below a URL is asked when something of it is read.
    """
    if isinstance(option, Store):
        return option
    text = str(option) if option is not None else os.environ.get(ENVIRONMENT, "")
    if is_url(text):
        from benchkit.store.remote_store import RemoteStore  # noqa: PLC0415 - only where a store is a URL

        return RemoteStore(text)
    return Store(existing_store(option) if must_exist else store_path(option))
