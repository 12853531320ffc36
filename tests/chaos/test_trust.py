"""What gets where it must not: secrets into files and process lists, what others say into a page, services onto all addresses."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from benchkit.lab.lab import Lab
from benchkit.results.packing import uncompressed
from tests.chaos.kit import SCENARIO, Bench, wait_for

pytestmark = pytest.mark.lab

TOKEN = "planted-4f1d9c-token"  # noqa: S105 - planted to be looked for


def over_ssh(lab: Lab, host: str, script: str) -> str:
    command = [*lab.ssh_command(host), "sh", "-s"]
    return subprocess.run(command, input=script, capture_output=True, text=True, check=True, timeout=30).stdout


def contents(folder: Path) -> dict[Path, bytes]:
    """What the files of a folder hold, unpacked."""
    found = {}
    for path in folder.rglob("*"):
        if path.is_file():
            content = uncompressed(path) if path.suffix == ".zst" else path.read_bytes()
            found[path] = gzip.decompress(content) if path.suffix == ".gz" else content
    return found


def test_no_secret_gets_anywhere(bench: Bench, lab: Lab) -> None:
    """The key that opens the hosts, and what the controller has in its environment."""
    key = (lab.folder.path / "identity").read_text().splitlines()
    planted = [TOKEN, key[2], key[3]]
    secretive = replace(bench, secrets={"AWS_SECRET_ACCESS_KEY": TOKEN, "SSH_AUTH_SOCK": f"/none/{TOKEN}"})
    running = secretive.start(
        str(SCENARIO),
        "--set",
        "load.requests=30000",
        "--set",
        "factors.connections=[4]",
        "--set",
        "baseline=null",
        "--set",
        "blocks=1",
    )
    wait_for(running.journal(), "trial-started")
    words = " ".join(f"-e '{word}'" for word in planted)
    for host in lab.hosts:
        seen = over_ssh(
            lab,
            host.name,
            f"until pgrep -x 'nethttp|ab' > /dev/null; do sleep 0.05; done\n"
            f"for file in /proc/[0-9]*/environ /proc/[0-9]*/cmdline; do\n"
            f"  case $file in /proc/$$/*) ;; *) tr '\\0' '\\n' < $file 2> /dev/null | grep -q {words} && echo $file;; esac\n"
            f"done\n"
            f"grep -rlF {words} {host.workdir} || true\n"
            f"find {host.workdir} -maxdepth 0 -perm /077\n",
        )
        assert seen == "", host.name
    listening = over_ssh(lab, "sut", "ss -Hlnt | awk '{print $4}'")
    said = running.wait()
    assert said.code == 0, said.err
    assert f"{lab.hosts[0].address}:8080" in listening.split()
    assert not [each for each in listening.split() if re.match(r"(0\.0\.0\.0|\*|\[::\]):", each)]
    assert bench.cli("report", "latest").code == 0
    found = contents(bench.store)
    assert len(found) > 10
    for path, content in [*found.items(), (running.out, said.out.encode()), (running.err, said.err.encode())]:
        assert not [word for word in planted if word.encode() in content], path


class Tags(HTMLParser):
    """The tags and attributes of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.scripts = 0
        self.events: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.scripts += tag == "script"
        self.events += [name for name, _ in attrs if name.startswith("on")]


EVIL = '<script>alert(1)</script>"><img src=x onerror=alert(1)>'


def test_a_report_escapes_what_backends_hosts_and_scenarios_say(bench: Bench) -> None:
    assert bench.run(str(SCENARIO)).code == 0
    honest = Path(json.loads(bench.cli("report", "latest", "--json").out)["report"]).read_text()
    run = bench.folder()
    manifest = json.loads((run / "manifest.json").read_text())
    manifest["scenario"] |= {"title": EVIL, "question": EVIL}
    manifest["notices"] = [EVIL]
    manifest["versions"]["sut.nginx"] = EVIL
    for host in manifest["hosts"]:
        host["facts"] |= {"distribution": EVIL, "cpu_model": EVIL, "kernel": EVIL}
    (run / "manifest.json").write_text(json.dumps(manifest))
    for path in run.glob("raw/*/trial.json"):
        trial = json.loads(path.read_text())
        trial["probe"]["headers"].append(["X-Evil", EVIL])
        trial["target"] = EVIL
        path.write_text(json.dumps(trial))
    journal = run / "journal.jsonl"
    journal.write_text(journal.read_text().replace('"distribution": "', f'"distribution": {json.dumps(EVIL)[:-1]}'))
    assert bench.cli("results", "reparse", "latest").code == 0
    page = Path(json.loads(bench.cli("report", "latest", "--json").out)["report"]).read_text()
    assert "&lt;script&gt;alert(1)" in page, "it is shown"
    assert "<script>alert(1)" not in page
    assert "<img src=x" not in page
    found, was = Tags(page), Tags(honest)
    assert (found.scripts, found.events) == (was.scripts, was.events)
