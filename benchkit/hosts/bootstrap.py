"""Getting the agent onto a host: one command, one start, its bytes sent only where the host has not got them yet.

The command is a line for whatever login shell the host has. It starts Python with a small program that looks for the
agent under its hash, asks for it where it is missing, and becomes it. Whatever start-up files print before is skipped.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import shlex
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable

from benchkit.errors import HostError, LostError
from benchkit.hosts.stream import Stream

LEASE_S = 60.0
"""An agent that hears nothing for so long gives up and tidies; the link makes itself heard far more often."""

DEFAULT_WORKDIR = "~/.benchkit"
OLDEST_PYTHON = "3.8"

_WORD = re.compile(rb"(?:^|\n)benchkit-agent (have|need|old [0-9.]+)\n")
_MAX_NOISE = 65536
_LONG_AGO = (1980, 1, 1, 0, 0, 0)
_NO_COMMAND = 127  # POSIX.1-2024, Shell Command Language 2.8.2

_BOOT = """
import sys, os
def say(word):
    sys.stdout.write(chr(10) + "benchkit-agent " + word + chr(10))
    sys.stdout.flush()
if sys.version_info < (3, 8):
    say("old %d.%d.%d" % sys.version_info[:3])
    sys.exit(0)
import hashlib
folder = os.path.expanduser(WORKDIR)
try:
    for path in (folder, os.path.join(folder, "agent")):
        os.makedirs(path, 0o700, exist_ok=True)
        found = os.lstat(path)
        if not (found.st_uid == os.geteuid() and found.st_mode & 0o170077 == 0o040000):
            sys.exit("%s has to be a folder of its own for user %d, with mode 700" % (path, os.geteuid()))
    path = os.path.join(path, SHA256 + ".pyz")
    content = b""
    if os.path.lexists(path):
        with open(path, "rb") as file:
            content = file.read()
    if hashlib.sha256(content).hexdigest() == SHA256:
        say("have")
    else:
        say("need")
        content = b""
        while len(content) < SIZE:
            piece = os.read(0, SIZE - len(content))
            if len(piece) == 0:
                sys.exit("the agent did not arrive whole")
            content += piece
        if not hashlib.sha256(content).hexdigest() == SHA256:
            sys.exit("the agent arrived damaged")
        part = "%s.%d" % (path, os.getpid())
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)
        os.rename(part, path)
except OSError as error:
    sys.exit("cannot use the work directory %s: %s" % (folder, error.strerror))
sys.path.insert(0, path)
from benchkit.agent.main import main
sys.exit(main(["--lease", LEASE, folder]))
"""
"""Runs on any Python 3, to say so where it is too old; without quotes, backslashes and marks that shells may touch."""


@dataclass(frozen=True)
class AgentFile:
    """The agent as it is sent: one file that Python runs."""

    content: bytes
    sha256: str


@cache
def agent_file() -> AgentFile:
    """The agent's modules as one archive; the same bytes whenever and wherever it is made of the same sources."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as archive:  # stored: needs no zlib, and varies with none
        archive.writestr(zipfile.ZipInfo("benchkit/__init__.py", _LONG_AGO), "")
        for name, source in sorted(_sources(resources.files("benchkit.agent"), "benchkit/agent")):
            archive.writestr(zipfile.ZipInfo(name, _LONG_AGO), source)
    content = made.getvalue()
    return AgentFile(content, hashlib.sha256(content).hexdigest())


def _sources(folder: Traversable, name: str) -> Iterator[tuple[str, bytes]]:
    """The Python files of a folder and those below, with their names in the archive."""
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _sources(entry, f"{name}/{entry.name}")
        elif entry.name.endswith(".py"):
            yield f"{name}/{entry.name}", entry.read_bytes()


def command(agent: AgentFile, workdir: str | None, lease_s: float = LEASE_S) -> str:
    """The line that starts the agent, for any login shell."""
    values = {
        "WORKDIR": workdir or DEFAULT_WORKDIR,
        "SHA256": agent.sha256,
        "SIZE": len(agent.content),
        "LEASE": str(lease_s),
    }
    program = "".join(f"{name} = {json.dumps(value)}\n" for name, value in values.items()) + _BOOT
    return f"exec python3 -I -c {shlex.quote(f'exec({json.dumps(program)})')}"


def start(stream: Stream, host: str, agent: AgentFile) -> Callable[[int], bytes]:
    """Bring the agent up on the other end of `stream`, which runs `command`; what to read its frames with.

    Raises HostError where there is no Python, where it is too old, or where the agent does not come up.
    """
    heard = b""
    while (word := _WORD.search(heard)) is None:
        try:
            piece = stream.receive(_MAX_NOISE)
        except TimeoutError:
            raise HostError(
                "the login shell does not get to the command",
                where=host,
                why=_shown(heard) or "it is silent",
                hint="does a start-up file of the shell wait for something?",
            ) from None
        if not piece or len(heard) > _MAX_NOISE:
            raise _no_start(stream, host, heard)
        heard += piece
    verdict = word[1].decode()
    if verdict.startswith("old"):
        raise HostError(
            f"Python {verdict.split()[1]} is too old",
            where=host,
            hint=f"install Python {OLDEST_PYTHON} or newer as python3",
        )
    if verdict == "need":
        stream.send(agent.content)
    rest = [heard[word.end() :]]
    return lambda size: rest.pop() if rest and rest[0] else stream.receive(size)


def _no_start(stream: Stream, host: str, heard: bytes) -> HostError:
    code = stream.exit_code(0 if len(heard) > _MAX_NOISE else 2.0)
    said = " ".join(filter(None, (stream.stderr(), _shown(heard))))
    if code == _NO_COMMAND:
        hint = f"install Python {OLDEST_PYTHON} or newer, as python3 in the PATH of a shell without a login"
        return HostError("there is no python3", where=host, why=said or None, hint=hint)
    if code in (None, -1):
        return LostError("the agent does not start", where=host, why=said or "the connection broke")
    return HostError("the agent does not start", where=host, why=said or f"exit code {code}")


def _shown(heard: bytes) -> str:
    """The end of what was printed, fit for a message."""
    text = heard.decode(errors="replace").strip()
    return "".join(each if each.isprintable() else " " for each in text)[-400:].strip()
