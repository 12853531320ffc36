"""The start of the agent on a host: one command; its code is sent only to hosts that do not have it yet.

The command is a line for any login shell. It starts Python with a small program that looks for the agent by its hash,
requests it where it is missing, and runs it. Earlier output, of the shell's start-up files, is skipped.

The host keeps the agent in a folder that only this user can enter. Python runs there without `site`, because packages
of the host may do any work at Python's start. The agent imports the standard library only.
"""

from __future__ import annotations

import hashlib
import io
import json
import logging
import re
import shlex
import time
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import resources

from benchkit.errors import HostError, LostError
from benchkit.hosts.agent_link import Stream

LEASE_S = 60.0
"""Lease of an agent: without a heartbeat for this long it restores everything and ends."""

DEFAULT_WORKDIR = "~/.benchkit"
OLDEST_PYTHON = "3.8"

_STATUS = re.compile(rb"(?:^|\n)benchkit-agent (have|need|old [0-9.]+)\n")
_MAX_BANNER = 65536
_ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)
_NOT_EXECUTED = (126, 127)  # POSIX.1-2024, Shell Command Language 2.8.2: not executable, not found

_BOOT = """
import sys, os
def report(word):
    sys.stdout.write(chr(10) + "benchkit-agent " + word + chr(10))
    sys.stdout.flush()
if sys.version_info < (3, 8):
    report("old %d.%d.%d" % sys.version_info[:3])
    sys.exit(0)
import hashlib
folder = os.path.expanduser(WORKDIR)
try:
    for path in (folder, os.path.join(folder, "agent")):
        os.makedirs(path, 0o700, exist_ok=True)
        status = os.lstat(path)
        if not (status.st_uid == os.geteuid() and status.st_mode & 0o170077 == 0o040000):
            sys.exit("%s must be a folder that belongs to user %d, with mode 700" % (path, os.geteuid()))
    path = os.path.join(path, SHA256 + ".pyz")
    content = b""
    if os.path.lexists(path):
        with open(path, "rb") as file:
            content = file.read()
    if hashlib.sha256(content).hexdigest() == SHA256:
        report("have")
    else:
        report("need")
        content = b""
        while len(content) < SIZE:
            piece = os.read(0, SIZE - len(content))
            if len(piece) == 0:
                sys.exit("the agent arrived incomplete")
            content += piece
        if not hashlib.sha256(content).hexdigest() == SHA256:
            sys.exit("the agent arrived damaged")
        part = "%s.%d" % (path, os.getpid())
        try:
            with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(content)
            os.rename(part, path)
        except OSError:
            if os.path.lexists(part):
                os.unlink(part)
            raise
except OSError as error:
    sys.exit("cannot use the work directory %s: %s" % (folder, error.strerror))
sys.path.insert(0, path)
from benchkit.agent.server import main
sys.exit(main(["--lease", LEASE, folder]))
"""
"""Start-up program. It runs on any Python 3, to report a version that is too old; shells expand none of its characters.

It keeps the agent in a file named by the agent's hash, which shows damage too.
"""

logger = logging.getLogger(__name__)


def _no_python(host: str, why: str | None) -> HostError:
    hint = "install the package python3 there; a shell without a login must find python3 in its PATH"
    return HostError(f"no Python {OLDEST_PYTHON} or newer", where=host, why=why, hint=hint)


@dataclass(frozen=True)
class AgentFile:
    """The agent as one file that Python runs."""

    content: bytes
    sha256: str


@cache
def agent_file() -> AgentFile:
    """Pack the agent's modules into one archive; the same sources always give the same bytes."""
    buffer = io.BytesIO()
    # Stored, because compressed bytes depend on the version of zlib.
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(zipfile.ZipInfo("benchkit/__init__.py", _ZIP_EPOCH), "")
        for source in sorted(resources.files("benchkit.agent").iterdir(), key=lambda each: each.name):
            if source.name.endswith(".py"):
                archive.writestr(zipfile.ZipInfo(f"benchkit/agent/{source.name}", _ZIP_EPOCH), source.read_bytes())
    content = buffer.getvalue()
    return AgentFile(content, hashlib.sha256(content).hexdigest())


def command(agent: AgentFile, workdir: str | None, lease_s: float = LEASE_S) -> str:
    """Return the line that starts the agent, for any login shell."""
    values = {
        "WORKDIR": workdir or DEFAULT_WORKDIR,
        "SHA256": agent.sha256,
        "SIZE": len(agent.content),
        "LEASE": str(lease_s),
    }
    program = "".join(f"{name} = {json.dumps(value)}\n" for name, value in values.items()) + _BOOT
    return f"exec python3 -I -S -c {shlex.quote(f'exec({json.dumps(program)})')}"


def start(stream: Stream, host: str, agent: AgentFile) -> Callable[[int], bytes]:
    """Start the agent at the far end of `stream`, which runs `command`; return the function that reads its frames.

    Raises HostError where Python is missing or too old, and where the agent does not start.
    """
    logger.debug("%s: waiting for the start-up program", host)
    began = time.monotonic()
    output = b""
    while (match := _STATUS.search(output)) is None:
        try:
            piece = stream.receive(_MAX_BANNER)
        except TimeoutError:
            why = _printable(output) or "it printed nothing; does a start-up file of the shell wait for something?"
            raise HostError("the login shell did not run the command", where=host, why=why) from None
        if not piece or len(output) > _MAX_BANNER:
            raise _start_error(stream, host, output)
        output += piece
    status = match[1].decode()
    logger.debug("%s: the start-up program reports %r after %.3f s", host, status, time.monotonic() - began)
    if status.startswith("old"):
        raise _no_python(host, f"python3 is Python {status.split()[1]}")
    if status == "need":
        logger.info("%s: sending the agent, %d bytes", host, len(agent.content))
        try:
            stream.send(agent.content)
        except OSError as error:
            raise LostError("the agent could not be sent", where=host, why=str(error)) from error
    rest = [output[match.end() :]]
    return lambda size: rest.pop() if rest and rest[0] else stream.receive(size)


def _start_error(stream: Stream, host: str, output: bytes) -> HostError:
    code = stream.exit_code(0 if len(output) > _MAX_BANNER else 2.0)
    printed = " ".join(filter(None, (stream.stderr(), _printable(output))))
    if code in _NOT_EXECUTED:
        return _no_python(host, printed or None)
    if code in (None, -1):
        return LostError("the agent does not start", where=host, why=printed or "the connection broke")
    return HostError("the agent does not start", where=host, why=printed or f"exit code {code}")


def _printable(output: bytes) -> str:
    text = output.decode(errors="replace").strip()
    return "".join(each if each.isprintable() else " " for each in text)[-400:].strip()
