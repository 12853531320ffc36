from __future__ import annotations

from tests.support.report.fixtures import make_run, run
from tests.support.report.sites import add_run, store
