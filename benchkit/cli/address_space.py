"""The address space of this process, which a shell may limit (`ulimit -v`)."""

from __future__ import annotations

import resource

from benchkit.errors import BenchkitError

MIB = 1 << 20
LEAST = 1024 * MIB
"""Address space below which libraries that read tables crash or hang; a report maps 700 MiB at least."""


def require_address_space() -> None:
    """Raise BenchkitError where this process may use less than `LEAST`."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY and limit < LEAST:
        why = f"it may use {limit // MIB:,} MiB of address space, and needs {LEAST // MIB:,}"
        raise BenchkitError("out of memory", where="this process", why=why, hint="`ulimit -v unlimited`")
