from __future__ import annotations

from tests.support.profiles.fixtures import recorded, unpacked
