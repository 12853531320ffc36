from __future__ import annotations

from tests.support.hosts.fixtures import hosts, inventory, sut
from tests.support.run.fixtures import bench, command_server, new_bench, open_recorder, stores
