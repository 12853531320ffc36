from __future__ import annotations

from tests.chaos.conftest import bench, new_bench, zygote

__all__ = ["bench", "new_bench", "zygote"]
