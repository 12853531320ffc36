from __future__ import annotations

from tests.support.report.fixtures import make_run, run
