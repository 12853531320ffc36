from __future__ import annotations

from tests.support.waiting_servers.servers import postgres, waiting_server
