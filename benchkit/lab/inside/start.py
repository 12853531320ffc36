"""Start of an init process, configured by the first line on stdin (`benchkit.lab.init_launcher` has the command).

Errors are sent to stdout as messages; stderr is the lab's log.
"""

from __future__ import annotations

import os
import sys

from benchkit.lab.inside import host, supervisor, switch
from benchkit.lab.inside.commands import CommandError
from benchkit.lab.inside.kernel import RefusedError
from benchkit.lab.inside.messages import receive, send

_KINDS = {"switch": switch.run, "host": host.run, "supervisor": supervisor.run}


def main() -> None:
    """Run the kind of process that the first line on stdin names; on failure send the reason and exit."""
    config = receive(sys.stdin)
    if config is None:
        os._exit(1)  # the process that started this one has ended
    try:
        _KINDS[config["kind"]](config)
    except RefusedError as error:
        _fail(str(error.strerror), refused=True)
    except CommandError as error:
        _fail(str(error), refused=error.refused)
    except OSError as error:
        _fail(str(error), refused=False)


def _fail(why: str, *, refused: bool) -> None:
    send({"failed": why, "refused": refused})
    os._exit(1)
