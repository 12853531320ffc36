from __future__ import annotations

from tests.support.loadtools.fixtures import server, url
