from __future__ import annotations

from tests.support.plugins.go_modules.fixtures import place, state
from tests.support.plugins.go_modules.git_server import service
