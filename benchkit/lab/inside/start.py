"""How a process of a lab starts: the first line on stdin says what to be; see `benchkit.lab.first_process` for the command.

Errors go to stdout as messages; stderr is the lab's log.
"""

from __future__ import annotations

import os
import sys

from benchkit.lab.inside import host, keeper, switch
from benchkit.lab.inside.kernel import RefusedError
from benchkit.lab.inside.messages import CommandError, receive, say

_KINDS = {"switch": switch.run, "host": host.run, "keeper": keeper.run}


def main() -> None:
    """Be what the first line on stdin says; on failure say why on stdout and end."""
    config = receive(sys.stdin)
    if config is None:
        os._exit(1)  # whoever started us is gone
    try:
        _KINDS[config["kind"]](config)
    except RefusedError as error:
        _fail(str(error.strerror), refused=True)
    except CommandError as error:
        _fail(str(error), refused=error.refused)
    except OSError as error:
        _fail(str(error), refused=False)


def _fail(why: str, *, refused: bool) -> None:
    say({"failed": why, "refused": refused})
    os._exit(1)
