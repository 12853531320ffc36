"""The log file of a run."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest

from benchkit.store.run_log import log_step, run_log

logger = logging.getLogger("benchkit.tests.run_log")


def test_a_step_is_logged_with_its_host_and_its_duration_also_where_it_fails(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail() -> None:
        with log_step(logger, "deploy", "sut"):
            raise ValueError("no room")

    caplog.set_level("INFO", "benchkit")
    with log_step(logger, "tune", "load"):
        pass
    with pytest.raises(ValueError, match="no room"):
        fail()
    ended, failed = (record.getMessage() for record in caplog.records if record.name == logger.name)
    assert re.fullmatch(r"load: tune: done in \d+\.\d+ s", ended)
    assert re.fullmatch(r"sut: deploy: failed after \d+\.\d+ s: no room", failed)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_log_that_cannot_be_written_is_reported_once_and_ends_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with run_log(Path("/dev/full")):
        logger.info("first")
        logger.info("second")
    assert capsys.readouterr().err == (
        "cannot write /dev/full: No space left on device; the run continues without its log\n"
    )
