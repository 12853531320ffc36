from __future__ import annotations

from tests.support.comparison.fixtures import make_manifest, make_trials, stored
