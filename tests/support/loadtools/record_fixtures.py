"""Recording of outputs of load tools as fixtures: `python -m tests.support.loadtools.record_fixtures NAME.made.json…`.

For each of these files, it runs the commands that the file states against a small server, and writes the output beside
it (`NAME.txt`). To add a fixture, write such a file first. It has `version` and `command` of the tool, with URLs on
127.0.0.1 at any port (1 stays: no server listens there). It may have `files` to write, and `before`, the commands to
run first. `captured` is the file to record in place of stdout and stderr, `interrupt_s` the time to an interrupt. With
`protocol`, and `tls` for its options, the server is nginx, and `ca.pem` verifies it. Other versions of a tool must be
on the PATH under the names in the commands. A file with `source` in place of these was written after the tool's
documentation. The expected result (`NAME.expected.json`) is written by hand.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from benchkit.models.protocol import HttpProtocol, TlsOptions
from benchkit.services.certificates import RunAuthority
from tests.support.loadtools.tls_server import tls_server
from tests.support.paths import TESTS

SERVER = TESTS / "support/loadtools/small_server.py"
URL = re.compile(r"https?://127\.0\.0\.1:(?!1/)[0-9]+/")
AUTHORITY = re.compile(r"127\.0\.0\.1:(?!1\b)[0-9]+")
PRINTED = "stdout and stderr, together"

CONFIGS = {
    "quiet.conf": "verbose = false\n",
    "verbose.conf": "verbose = true\ncolor = on\n",
    "json.conf": "verbose = false\njson_output = true\n",
    "log.conf": "verbose = false\nlogging = true\nlogfile = siege.log\n",
}

_GET = "import http from 'k6/http'; export default function () { http.get(__ENV.URL); }\n"
SCRIPTS = {
    "load.js": _GET,
    "deadline.js": f"export const options = {{scenarios: {{stall: {{executor: 'constant-vus', vus: 4, duration: '2s', "
    f"gracefulStop: '0s'}}}}}};\n{_GET}",
    "arrivals.js": "export const options = {scenarios: {slow: {executor: 'constant-arrival-rate', rate: 200, "
    f"duration: '2s', preAllocatedVUs: 2, maxVUs: 2}}}}}};\n{_GET}",
    "handle.js": f"{_GET}export function handleSummary(data) {{ return {{'out.json': JSON.stringify(data)}}; }}\n",
}
"""Scripts of k6; `deadline.js` ends the requests in flight at the end, `arrivals.js` has too few users for its rate."""


def record(path: Path, url: str) -> None:
    """Run the commands of one file in an empty directory, and write the output and the commands as run."""
    text = path.read_text()
    protocol: HttpProtocol | None = json.loads(text).get("protocol")
    with ExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if protocol is not None:
            tls = TlsOptions.model_validate(json.loads(text).get("tls", {}))
            nginx = stack.enter_context(tls_server(Path(stack.enter_context(tempfile.TemporaryDirectory())), tls))
            url = f"{nginx.target(protocol).origin}/"
            (work / "ca.pem").write_bytes(RunAuthority().read())
        case: dict[str, Any] = json.loads(AUTHORITY.sub(urlsplit(url).netloc, URL.sub(url, text)))
        (work / "POSTED").write_text("k=v\n")
        for config, text in CONFIGS.items():
            (work / config).write_text(f"{text}show-logfile = false\nconnection = keep-alive\nparser = false\n")
        for script, source in SCRIPTS.items():
            (work / script).write_text(source)
        for word in ("slow", "drop", "page"):
            (work / word).write_text(f"GET {url}{word}\n")
        for name, content in case.get("files", {}).items():
            (work / name).write_text(content)
        for command in case["before"]:
            subprocess.run(["env", f"HOME={work}", *command], cwd=work, check=True, timeout=60, capture_output=True)
        printed = _run(case["command"], work, case.get("interrupt_s"))
        text = printed if case["captured"] == PRINTED else (work / case["captured"]).read_text()
    path.with_name(path.name.replace(".made.json", ".txt")).write_text(text)
    path.write_text(json.dumps(case, indent=2) + "\n")


def _run(argv: list[str], work: Path, interrupt_s: float | None) -> str:
    with subprocess.Popen(
        ["env", f"HOME={work}", *argv], cwd=work, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as running:
        if interrupt_s:
            try:
                running.wait(interrupt_s)
            except subprocess.TimeoutExpired:
                running.send_signal(signal.SIGINT)
        printed, _ = running.communicate(timeout=60)
    return printed.decode()


def main() -> None:
    """Record the named cases."""
    with subprocess.Popen(
        [sys.executable, str(SERVER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        if server.stdout is None or server.stdin is None:
            raise RuntimeError("the server's pipes are not open")
        url = f"http://127.0.0.1:{int(server.stdout.readline())}/"
        for path in map(Path, sys.argv[1:]):
            record(path, url)
            print(path)  # noqa: T201 - progress of a script
        server.stdin.close()


if __name__ == "__main__":
    main()
