from __future__ import annotations

from tests.support.plugins.go_modules.fixtures import free_port, place, state
from tests.support.plugins.go_modules.git_server import service
