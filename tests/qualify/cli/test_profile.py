from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from benchkit.cli.profile import app
from benchkit.errors import BenchkitError
from tests.support.cli.fixtures import Cli
from tests.support.paths import TESTS

FIXTURES = TESTS / "fixtures" / "profiles"
NET_HTTP = str(FIXTURES / "nethttp-go1.26.pb.gz")
NGINX = str(FIXTURES / "nginx-return.perf.txt.gz")
HEAP = str(FIXTURES / "mixed-heap.pb.gz")


def benchkit_profile(*arguments: str, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(app, list(arguments), input=stdin)


def document(*arguments: str) -> dict[str, Any]:
    result = benchkit_profile(*arguments, "--json")
    assert result.exception is None, result.output
    assert result.stderr == ""
    printed: dict[str, Any] = json.loads(result.stdout)
    return printed


def refusal(*arguments: str) -> str:
    result = benchkit_profile(*arguments)
    assert isinstance(result.exception, BenchkitError), result.output
    assert result.exception.exit_code == 2
    assert result.stdout == ""
    return str(result.exception)


def test_top_states_seconds_and_shares() -> None:
    found = document("top", NET_HTTP)
    assert (found["profiler"], found["value"], found["unit"]) == ("pprof", "cpu", "nanoseconds")
    assert found["total_s"] == found["total"] / 1e9
    first = found["rows"][0]
    assert first["function"] == "internal/runtime/syscall/linux.Syscall6"
    assert first["flat_s"] == first["flat"] / 1e9
    assert first["flat_share"] == first["sum_share"] == first["flat"] / found["total"]
    assert first["cum"] >= first["flat"]
    assert len(found["rows"]) == found["functions"]
    assert document("top", NET_HTTP, "-n", "3")["rows"] == found["rows"][:3]


def test_top_prints_a_table() -> None:
    lines = benchkit_profile("top", NET_HTTP, "-n", "2").stdout.splitlines()
    assert lines[0].startswith("pprof: cpu, ")
    assert lines[2].split() == ["flat", "flat%", "sum%", "cum", "cum%", "function"]
    assert lines[3].endswith("  internal/runtime/syscall/linux.Syscall6")
    assert len(lines) == 5


def test_shares_add_up() -> None:
    found = document("shares", NET_HTTP)
    assert sum(found["categories"].values()) == pytest.approx(1)
    parts = (found["categories"][name] for name in ("scheduler", "netpoll", "epoll"))
    assert found["waiting"] == pytest.approx(sum(parts))
    assert list(found["cumulative"]) == ["mcall", "schedule", "findrunnable", "netpoll", "epollwait"]
    assert (
        " waiting: finding and waiting for work (scheduler, netpoll and epoll)"
        in benchkit_profile("shares", NET_HTTP).stdout
    )


def test_a_profile_without_samples_has_no_shares(tmp_path: Path) -> None:
    idle = tmp_path / "idle.pb"
    idle.write_bytes(b"\x0a\x04\x08\x01\x10\x02" + b"\x32\x00\x32\x03cpu\x32\x0bnanoseconds")
    found = document("shares", str(idle))
    assert (found["total"], found["waiting"], found["categories"], found["cumulative"]) == (0, None, None, None)
    assert benchkit_profile("shares", str(idle)).stdout.splitlines()[-1] == "the profile has no samples"


def test_a_profile_is_read_from_stdin() -> None:
    data = Path(NET_HTTP).read_bytes()
    from_stdin = benchkit_profile("top", "-", "--json", stdin=gzip.decompress(data))
    assert json.loads(from_stdin.stdout) == document("top", NET_HTTP)


def test_export_writes_a_document_for_speedscope(cli: Cli, tmp_path: Path) -> None:
    written = tmp_path / "out.json"
    done = cli("profile", "export", NGINX, "-o", written, "--json")
    assert done.document() == {"written": [str(written)]}
    assert json.loads(written.read_text())["profiles"][0]["unit"] == "nanoseconds"
    assert cli("profile", "export", NET_HTTP, "-o", tmp_path / "no" / "x.json").code == 2


@pytest.mark.parametrize("command", ["top", "shares"])
def test_a_file_that_is_no_profile_is_refused_by_name(command: str, tmp_path: Path) -> None:
    wrong = tmp_path / "wrk.txt"
    wrong.write_text("Running 10s test @ http://127.0.0.1\n")
    assert refusal(command, str(wrong)).startswith(f"{wrong}: not a pprof profile: ")
    assert (
        refusal(command, str(tmp_path / "none"))
        == f"{tmp_path / 'none'}: cannot read the file: No such file or directory"
    )
    wrong.write_bytes(Path(NET_HTTP).read_bytes()[:-20])
    assert refusal(command, str(wrong)) == f"{wrong}: the gzip file is truncated: it ends before the end of its content"
