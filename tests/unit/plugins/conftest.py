from __future__ import annotations

from tests.support.comparison.fixtures import stored
from tests.support.report.fixtures import make_run, run
