from __future__ import annotations

from tests.support.cli.fixtures import cli, environment, inventory, program
from tests.support.cli.history import stored
from tests.support.cli.own_servers import folder
from tests.support.lab.fixtures import loopback
