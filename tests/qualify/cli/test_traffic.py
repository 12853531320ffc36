"""Traffic of a log on a lab: shares of its classes, its times, its secrets, and a class that changes."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd
import pytest

from benchkit.lab.lab import Lab
from tests.support.builders import Fields, write_scenario
from tests.support.cli.fixtures import Cli
from tests.support.paths import TESTS
from tests.support.store.leaks import leaks

LINES = 8_000
PERIOD_S = 40.0
SPEED = 5
BEGAN = 1_770_000_000.0
MARK = "planted5ecret"
FORMAT = (
    r'\S+ - \S+ \[(?P<time>[^\]]+)\] "(?P<request>[^"]*)" (?P<status>\d+) (?P<bytes>\d+) '
    r'"(?P<referer>[^"]*)" "(?P<user_agent>[^"]*)" "(?P<cookie>[^"]*)" "(?P<authorization>[^"]*)"'
)
JWT = f"eyJhbGciOiJIUzI1NiJ9.{MARK}.c2lnbmF0dXJl"
CLASSES = {
    "GET /": ("/", 200, 500, 40),
    "GET /items/{}": ("/items/{number}", 200, None, 35),
    "GET /items/{}?": (f"/items/{{number}}?access_token={MARK}&page=2", 200, None, 5),
    "GET /search?": (f"/search?q=shoes&email={MARK}%40example.org", 200, 900, 12),
    "GET /gone": ("/gone", 404, 20, 6),
    "POST /cart": (f"/cart?session={MARK}", 200, 500, 2),
}
"""Path, status, size of the answer and share of each class; sizes of items follow from their paths."""


def lines_of_log() -> list[str]:
    """Return lines in the order of their times, which come in waves."""
    draw = random.Random(7)  # noqa: S311 - a log, not secrets
    instants = sorted(BEGAN + PERIOD_S * draw.betavariate(2, 3) for _ in range(LINES))
    return [_line(name, at, draw) for name, at in zip(names_of_log(), instants, strict=True)]


def names_of_log() -> list[str]:
    """Return the class of each line."""
    draw = random.Random(8)  # noqa: S311 - a log, not secrets
    return draw.choices(list(CLASSES), [share for *_, share in CLASSES.values()], k=LINES)


def _line(name: str, at_s: float, draw: random.Random) -> str:
    path, status, size, _ = CLASSES[name]
    target = path.format(number=draw.randrange(10_000, 100_000))
    body = 200 + len(target.partition("?")[0]) if size is None else size
    date = datetime.fromtimestamp(at_s, UTC).strftime("%d/%b/%Y:%H:%M:%S +0000")
    return (
        f'10.1.2.3 - {MARK} [{date}] "{name.partition(" ")[0]} {target} HTTP/1.1" {status} {body} '
        f'"https://a.example/?token={MARK}" "Browser/1.0" "sid={MARK}" "Bearer {JWT}" {at_s:.3f}'
    )


@pytest.fixture
def traffic(cli: Cli, tmp_path: Path) -> Path:
    """The traffic of the log, which stands in another folder than all results."""
    logs = tmp_path / "logs"
    logs.mkdir()
    log = logs / "access.log"
    log.write_text("\n".join(lines_of_log()) + "\n")
    (tmp_path / "shop").mkdir()
    shutil.copy(TESTS / "support/servers/classes.go", tmp_path / "shop")
    path = tmp_path / "shop.json"
    made = cli("traffic", "from", log, "--format", FORMAT, "-o", path)
    assert made.code == 0, made.err
    assert MARK not in path.read_text()
    said = [line.removeprefix("! ") for line in made.out.splitlines() if line.startswith("! ")]
    with_secret = sum(MARK in line.split('"')[1] for line in lines_of_log())
    assert f"removed, secrets in queries: {with_secret:,}" in said
    assert f"removed, headers Cookie: {LINES:,}" in said
    assert f"removed, headers Authorization: {LINES:,}" in said
    assert "the log has only these headers: User-Agent; requests are sent without others" in said
    assert any(each.startswith("the log has no sizes of bodies: ") for each in said)
    return path


def server(delay: str) -> Fields:
    """Return a stack of the server whose search takes this time."""
    service = {
        "backend": "command",
        "listen": 8080,
        "run": ["./server", "{port}", delay],
        "build": {"from": "shop", "run": ["go", "build", "-o", "{out}/server", "classes.go"]},
    }
    return {"entry": "app", "services": {"app": service}}


def table(store: Path, name: str) -> pd.DataFrame:
    """Return a table of all runs."""
    return pd.concat(map(pd.read_parquet, (store / "tables" / name).rglob("*.parquet")))


def test_a_log_is_replayed_with_its_shares_and_times_and_without_its_secrets(
    cli: Cli, lab: Lab, traffic: Path, tmp_path: Path
) -> None:
    load = {"tool": "openloop", "connections": 64, "duration_s": PERIOD_S / SPEED, "traffic": traffic.name}
    path = write_scenario(
        tmp_path, stacks={"one": server("1ms")}, load={**load, "pace": "recorded", "speed": SPEED}, blocks=1
    )
    done = cli("run", path, "--lab", lab.name, "--json")
    assert done.code == 0, done.err
    store = tmp_path / "store"
    rows = table(store, "classes").set_index("request_class")
    logged = Counter(names_of_log())
    sent = rows["requests"] + rows["errors"]
    assert sent.sum() > 0.99 * LINES
    assert set(sent.index) == set(CLASSES)
    for name, number in logged.items():
        assert sent[name] / sent.sum() == pytest.approx(number / LINES, abs=0.01), name
        assert rows.weight[name] == pytest.approx(number / LINES, rel=1e-6)
    assert rows[["other_statuses", "other_sizes"]].sum().sum() == 0
    assert (rows["latency_p50_s"] <= rows["latency_p99_s"]).all()
    assert rows.latency_p50_s["GET /search?"] > 1e-3
    assert not {"errors", "unequal-responses"} & set(table(store, "verdicts")["check"])
    assert leaks(MARK, store) == []
    assert cli("report", "latest", "-o", tmp_path / "report").code == 0
    page = (tmp_path / "report" / "report.html").read_text()
    assert all(name.split("/{")[0] in page for name in CLASSES)
    assert MARK not in page
