from __future__ import annotations

from tests.support.cli.go_modules.fixtures import environment, hosts_file, inventory, state
