from __future__ import annotations

from tests.support.comparison.fixtures import stored
from tests.support.profiles.fixtures import recorded
