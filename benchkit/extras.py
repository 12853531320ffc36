"""Optional packages: what is installed with an extra of benchkit, as in `pip install 'benchkit[dask]'`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from benchkit.errors import InputError


@contextlib.contextmanager
def needs_extra(extra: str, where: str) -> Iterator[None]:
    """Import packages of an extra within the block; `where` names what asked for them. Raises InputError without it."""
    try:
        yield
    except ImportError as error:
        raise InputError(
            f"a package of the extra {extra!r} is not installed here",
            where=where,
            why=str(error),
            hint=f"pip install 'benchkit[{extra}]'",
        ) from None
