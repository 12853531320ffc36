"""Recording of real outputs of load tools as fixtures: `python tests/load/record_fixtures.py FOLDER [NAME…]`.

For every case NAME it writes the output (`NAME.txt`) and how it was recorded (`NAME.made.json`: version, command, and the
captured streams) into FOLDER/<tool>/. Other versions of a tool must be on the PATH under the names below. The expected
result (`NAME.expected.json`) is written by hand.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

SERVER = Path(__file__).with_name("small_server.py")
REFUSED = "http://127.0.0.1:1/"
"""URL of a port on which no server listens."""


@dataclass(frozen=True)
class Case:
    """One recording. `URL` in `command` is replaced by the server's; `file` is recorded instead of stdout and stderr."""

    tool: str
    name: str
    version: str
    command: str
    file: str | None = None
    interrupt_s: float | None = None


WRK, WRK2, WRK3 = "debian/4.1.0-3+b2", "wrk2 44a94c1", "3.1.2"
AB, HEY, SIEGE, SIEGE41, VEGETA, H2LOAD = "2.3 (httpd 2.4)", "0.1.4", "4.0.7", "4.1.7", "12.8.4", "nghttp2 1.52.0"

CASES = (
    Case("wrk", "v410-plain", WRK, "wrk -t2 -c5 -d1s URL"),
    Case("wrk", "v410-latency-version", WRK, "wrk -v -t1 -c4 -d1s --latency URL"),
    Case("wrk", "v410-late-answers", WRK, "wrk -v -t1 -c4 -d4s --timeout 1s --latency URLstall"),
    Case("wrk", "v410-non-2xx", WRK, "wrk -v -t1 -c3 -d1s URLfail"),
    Case("wrk", "v410-read-errors", WRK, "wrk -v -t1 -c8 -d1s --latency URLdrop"),
    Case("wrk", "v410-refused", WRK, f"wrk -v -t1 -c1 -d1s {REFUSED}"),
    Case("wrk", "v312-latency", WRK3, "wrk-3.1.2 -v -t1 -c4 -d2s --latency URLslow"),
    Case("wrk", "wrk2-spectrum", WRK2, "wrk2 -t1 -c2 -d12s -R100 --latency URL"),
    Case("wrk", "wrk2-uncorrected", WRK2, "wrk2 -v -t1 -c2 -d2s -R100 --u_latency URLslow"),
    Case("wrk", "wrk2-short", WRK2, "wrk2 -t1 -c2 -d2s -R100 URL"),
    Case("ab", "v23-keepalive", AB, "ab -k -c4 -n2000 URL"),
    Case("ab", "v23-close-slow", AB, "ab -c5 -n200 URLslow"),
    Case("ab", "v23-length", AB, "ab -k -c4 -n500 URLvary"),
    Case("ab", "v23-non-2xx", AB, "ab -q -c2 -n60 URLfail"),
    Case("ab", "v23-post", AB, "ab -c2 -n50 -p POSTED -T text/plain URL"),
    Case("ab", "v23-no-deviation", AB, "ab -S -d -c2 -n50 URLslow"),
    Case("ab", "v23-refused", AB, f"ab -c2 -n50 {REFUSED}"),
    Case("ab", "v23-timeout", AB, "ab -s1 -c2 -n6 URLstall"),
    Case("ab", "v23-interrupted", AB, "ab -c4 -n2000 URLslow", interrupt_s=3),
    Case("ab", "v23-interrupted-quiet", AB, "ab -q -c2 -n200 URLslow", interrupt_s=1),
    Case("ab", "v23-e", AB, "ab -q -c4 -n300 -e OUT URLslow", file="OUT"),
    Case("ab", "v23-g", AB, "ab -q -c4 -n60 -g OUT URLslow", file="OUT"),
    Case("hey", "v014-plain", HEY, "hey -c 4 -n 1000 URL"),
    Case("hey", "v014-few", HEY, "hey -c 2 -n 10 URLslow"),
    Case("hey", "v014-statuses-errors", HEY, "hey -c 4 -n 400 -disable-keepalive URLdrop"),
    Case("hey", "v014-503", HEY, "hey -c 3 -n 300 URLfail"),
    Case("hey", "v014-refused", HEY, f"hey -c 2 -n 20 {REFUSED}"),
    Case("hey", "v014-timeout", HEY, "hey -c 2 -n 4 -t 1 URLstall"),
    Case("hey", "v014-csv", HEY, "hey -c 3 -n 120 -o csv URLslow"),
    Case("siege", "v407-verbose", SIEGE, "siege --rc=verbose.conf -b -c3 -r8 URLslow"),
    Case("siege", "v407-json", SIEGE, "siege --rc=json.conf -b -c4 -t2S URLslow"),
    Case("siege", "v407-failed", SIEGE, "siege --rc=json.conf -b -c2 -r6 URLfail"),
    Case("siege", "v407-refused", SIEGE, f"siege --rc=quiet.conf -b -c2 -r3 {REFUSED}"),
    Case("siege", "v407-too-fast", SIEGE, "siege --rc=quiet.conf -b -c1 -r2 URL"),
    Case("siege", "v407-log", SIEGE, "siege --rc=log.conf -b -c2 -r20 --mark=second URLslow", file="siege.log"),
    Case("siege", "v417-text", SIEGE41, "siege-4.1.7 --rc=quiet.conf -b -c4 -t2S URLslow"),
    Case("siege", "v417-json", SIEGE41, "siege-4.1.7 --rc=json.conf -b -c4 -t2S URLslow"),
    Case("vegeta", "v12-json", VEGETA, "vegeta report -type=json ATTACK"),
    Case("vegeta", "v12-text", VEGETA, "vegeta report ATTACK"),
    Case("vegeta", "v12-hist", VEGETA, "vegeta report -type=hist[0,30ms,31ms,40ms] ATTACK"),
    Case("vegeta", "v12-hdrplot", VEGETA, "vegeta report -type=hdrplot ATTACK"),
    Case("vegeta", "v12-errors", VEGETA, "vegeta report ERRORS"),
    Case("h2load", "v152-count", H2LOAD, "h2load --h1 -c4 -t2 -n1000 URL"),
    Case("h2load", "v152-duration", H2LOAD, "h2load --h1 -c3 -t1 -D1s URLslow"),
    Case("h2load", "v152-non-2xx", H2LOAD, "h2load --h1 -c2 -t1 -n60 URLfail"),
    Case("h2load", "v152-refused", H2LOAD, f"h2load --h1 -c2 -t1 -n10 {REFUSED}"),
)

CONFIGS = {
    "quiet.conf": "verbose = false\n",
    "verbose.conf": "verbose = true\ncolor = on\n",
    "json.conf": "verbose = false\njson_output = true\n",
    "log.conf": "verbose = false\nlogging = true\nlogfile = siege.log\n",
}
ATTACKS = {  # attacks that are run before a report
    "ATTACK": ["-rate=50", "-duration=2s", "-targets=slow"],
    "ERRORS": ["-rate=40", "-duration=1s", "-targets=drop", "-keepalive=false"],
}
FIRST_RUN = ["siege", "--rc=log.conf", "-b", "-c1", "-r5"]


def record(case: Case, url: str, folder: Path) -> None:
    """Run one case in an empty directory, and write its output and how it was recorded."""
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        (work / "POSTED").write_text("k=v\n")
        for config, text in CONFIGS.items():
            (work / config).write_text(f"{text}show-logfile = false\nconnection = keep-alive\nparser = false\n")
        argv = [re.sub(r"^URL", url, part) for part in case.command.split()]
        prepare = [["vegeta", "attack", f"-output={part}", *ATTACKS[part]] for part in argv if part in ATTACKS]
        if case.name == "v407-log":
            prepare = [[*FIRST_RUN, f"{url}slow"]]
        for word in ("slow", "drop"):
            (work / word).write_text(f"GET {url}{word}\n")
        for command in prepare:
            subprocess.run(["env", f"HOME={work}", *command], cwd=work, check=True, timeout=60, capture_output=True)
        text = _output(case, argv, work)
    target = folder / case.tool
    target.mkdir(parents=True, exist_ok=True)
    (target / f"{case.name}.txt").write_text(text)
    made = {
        "version": case.version,
        "command": argv,
        "before": prepare,
        "captured": case.file or "stdout and stderr, together",
    }
    (target / f"{case.name}.made.json").write_text(json.dumps(made, indent=2) + "\n")


def _output(case: Case, argv: list[str], work: Path) -> str:
    with subprocess.Popen(
        ["env", f"HOME={work}", *argv], cwd=work, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as running:
        if case.interrupt_s:
            try:
                running.wait(case.interrupt_s)
            except subprocess.TimeoutExpired:
                running.send_signal(signal.SIGINT)
        printed, _ = running.communicate(timeout=60)
    return (work / case.file).read_text() if case.file else printed.decode()


def main() -> None:
    """Record the named cases, or all of them."""
    folder, wanted = Path(sys.argv[1]), sys.argv[2:]
    with subprocess.Popen(
        [sys.executable, str(SERVER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        if server.stdout is None or server.stdin is None:
            raise RuntimeError("the server's pipes are not open")
        url = f"http://127.0.0.1:{int(server.stdout.readline())}/"
        for case in CASES:
            if not wanted or case.name in wanted:
                record(case, url, folder)
                print(case.tool, case.name)  # noqa: T201 - progress of a script
        server.stdin.close()


if __name__ == "__main__":
    main()
