"""The log file of a run: everything that benchkit logs during the run, from DEBUG on."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from benchkit.safe_text import RedactingFormatter

ROOT = logging.getLogger("benchkit")


class _Formatter(RedactingFormatter):
    """Lines with times in UTC, which need no time zone to be compared between machines."""

    converter = staticmethod(time.gmtime)
    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03dZ"


class _RunLogHandler(logging.FileHandler):
    """A log file that warns once and stops when it cannot be written: a log must not end a run."""

    def handleError(self, _record: logging.LogRecord) -> None:  # noqa: N802 - the name that logging gives it
        """Warn where the disk refuses a line, and log no more."""
        error = sys.exc_info()[1]
        if not self.filters:
            why = error.strerror if isinstance(error, OSError) else error
            sys.stderr.write(f"cannot write {self.baseFilename}: {why}; the run continues without its log\n")
            self.addFilter(lambda _: False)


@contextmanager
def run_log(path: Path) -> Iterator[None]:
    """Append everything that benchkit logs to a file. Raises OSError where it cannot be opened."""
    handler = _RunLogHandler(path, encoding="utf-8")
    handler.setLevel(logging.DEBUG)
    handler.setFormatter(_Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s"))
    level_before = ROOT.level
    ROOT.setLevel(logging.DEBUG)
    ROOT.addHandler(handler)
    try:
        yield
    finally:
        ROOT.removeHandler(handler)
        ROOT.setLevel(level_before)
        with suppress(OSError):  # a full disk was reported when it refused a line
            handler.close()


@contextmanager
def log_step(logger: logging.Logger, step: str, host: str | None = None) -> Iterator[None]:
    """Log a step with its host and its duration when it ends, at INFO even where it fails."""
    where = "" if host is None else f"{host}: "
    logger.debug("%s%s: started", where, step)
    started_s = time.monotonic()
    try:
        yield
    except BaseException as error:
        reason = str(error) or type(error).__name__
        logger.info("%s%s: failed after %.3f s: %s", where, step, time.monotonic() - started_s, reason)
        raise
    logger.info("%s%s: done in %.3f s", where, step, time.monotonic() - started_s)
