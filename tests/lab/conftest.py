from __future__ import annotations

from tests.support.cli.fixtures import cli, environment
