from __future__ import annotations

from tests.support.hosts.fixtures import home, hosts, inventory, odd_server, sut
