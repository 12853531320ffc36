from __future__ import annotations

from tests.support.cli.fixtures import cli, environment
from tests.support.lab.fixtures import loopback
from tests.support.waiting_servers.servers import waiting_server
