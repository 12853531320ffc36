"""Logging on the terminal: `-v`, `-vv` and `--log-level` show on stderr what happens on hosts."""

from __future__ import annotations

import logging

from benchkit.errors import InputError
from benchkit.safe_text import RedactingFormatter

LEVELS = ("debug", "info", "warning", "error")

BY_VERBOSITY = ("warning", "info", "debug")
"""Level without `-v`, with one and with two of them."""

PROGRESS = ("benchkit.hosts.files.progress", "benchkit.services.command_build.progress")
"""Loggers of what takes long, for users who wait: uploads and builds."""

LIBRARIES = ("paramiko", "fabric", "invoke")
"""Libraries whose messages below warnings are shown at level `debug` only."""


def show_logs(verbosity: int, level: str | None) -> None:
    """Log to stderr at the level that the options ask for; without options only the progress of uploads and builds.

    Raises InputError for an unknown level.
    """
    if level is not None and level.lower() not in LEVELS:
        raise InputError(f"no log level {level!r}", why=f"levels: {', '.join(LEVELS)}")
    if level is None and not verbosity:
        if logging.lastResort is not None:  # writes warnings to stderr; adding it again has no effect
            for name in PROGRESS:
                logging.getLogger(name).addHandler(logging.lastResort)
        return
    from rich.logging import RichHandler

    from benchkit.cli.terminal import Terminal

    chosen = (level or BY_VERBOSITY[min(verbosity, len(BY_VERBOSITY) - 1)]).upper()
    handler = RichHandler(
        logging.getLevelName(chosen),
        Terminal("stderr"),
        show_path=False,
        markup=False,
        highlighter=None,
        omit_repeated_times=False,
        log_time_format="%H:%M:%S.%f",
    )
    handler.setFormatter(RedactingFormatter("%(name)s: %(message)s"))
    root = logging.getLogger()
    root.addHandler(handler)
    logging.getLogger("benchkit").setLevel(chosen)
    for library in LIBRARIES:
        logging.getLogger(library).setLevel(chosen if chosen == "DEBUG" else "WARNING")


def shows_logs() -> bool:
    """Return whether messages below warnings are shown on the terminal, where a live picture would overwrite them."""
    return any(type(handler).__name__ == "RichHandler" for handler in logging.getLogger().handlers)
