from __future__ import annotations

from tests.support.agent.fixtures import agent, has_ended, inside, launch, open_stream, workdir
