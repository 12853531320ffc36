from __future__ import annotations

from tests.support.run.fixtures import bench, open_recorder
