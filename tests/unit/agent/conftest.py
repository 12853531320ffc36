from __future__ import annotations

from tests.support.agent.fixtures import agent, has_ended, launch, open_stream, workdir
