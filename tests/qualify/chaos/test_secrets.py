"""Containment: secrets stay out of files and process lists, hostile text out of pages, services off other addresses."""

from __future__ import annotations

import gzip
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from benchkit.lab.lab import Lab
from benchkit.store.durable_files import decompress
from benchkit.store.store import Store
from benchkit.store.verification import write_checksums
from tests.qualify.chaos.interference import HeldLoadTool
from tests.qualify.chaos.kit import SCENARIO, Bench, on_host

TOKEN = "planted-4f1d9c-token"  # noqa: S105 - planted by the test


def read_contents(folder: Path) -> dict[Path, bytes]:
    """Return the contents of the files of a folder, unpacked."""
    found = {}
    for path in folder.rglob("*"):
        if path.is_file():
            content = decompress(path) if path.suffix == ".zst" else path.read_bytes()
            found[path] = gzip.decompress(content) if path.suffix == ".gz" else content
    return found


SCAN = """
grep -laF -f - /proc/[0-9]*/environ /proc/[0-9]*/cmdline << 'END' 2> /dev/null
WORDS
END
grep -rlF -f - WORKDIR << 'END'
WORDS
END
find WORKDIR -maxdepth 0 -perm /077
"""


@pytest.fixture(scope="module")
def secrets_to_find(lab: Lab) -> list[str]:
    """Texts that must not leak: the key of the hosts, and a token in the controller's environment."""
    key = (lab.folder.path / "identity").read_text().splitlines()
    return [TOKEN, key[2], key[3]]


def sut_listeners(lab: Lab) -> set[str]:
    """Return the addresses and ports that are listened on at the sut."""
    return set(on_host(lab, "sut", "ss -Hlnt | awk '{print $4}'").split())


def test_secrets_do_not_leak_and_hostile_text_is_escaped_in_the_report(
    bench: Bench, lab: Lab, held: HeldLoadTool, secrets_to_find: list[str]
) -> None:
    with_secrets = replace(bench, secrets={"AWS_SECRET_ACCESS_KEY": TOKEN, "SSH_AUTH_SOCK": f"/none/{TOKEN}"})
    before = sut_listeners(lab)  # servers of other tests may stay up
    running = with_secrets.start(str(SCENARIO), "--set", "blocks=1")
    held.wait(running)
    for host in lab.hosts:
        script = SCAN.replace("WORDS", "\n".join(secrets_to_find)).replace("WORKDIR", host.workdir)
        assert on_host(lab, host.name, f"{script}\ntrue") == "", host.name
    listening = sut_listeners(lab) - before
    held.release()
    result = running.wait()
    assert result.code == 0, result.err
    assert f"{lab.hosts[0].address}:8080" in listening
    assert not [each for each in listening if re.match(r"(0\.0\.0\.0|\*|\[::\]):", each)]
    plant_text(bench.folder(), HOSTILE_HTML)
    write_checksums(Store(bench.store), bench.stored_run())
    assert bench.cli("results", "reparse", "latest").code == 0
    page = Path(json.loads(bench.cli("report", "latest", "--json").out)["report"]).read_text()
    assert "&lt;script&gt;alert(1)" in page, "the text is shown"
    assert "<script>alert(1)" not in page
    assert "<img src=x" not in page
    tags = Tags(page)
    assert tags.scripts, "the page has scripts of its own"
    assert not [script for script in tags.scripts if "alert" in script]
    assert "onerror" not in tags.events
    found = read_contents(bench.store)
    assert len(found) > 10
    for path, content in [*found.items(), (running.out, result.out.encode()), (running.err, result.err.encode())]:
        assert not [word for word in secrets_to_find if word.encode() in content], path


class Tags(HTMLParser):
    """The scripts of a page, and its event attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.scripts: list[str] = []
        self.events: list[str] = []
        self._is_script = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._is_script = tag == "script"
        self.events += [name for name, _ in attrs if name.startswith("on")]

    def handle_data(self, data: str) -> None:
        if self._is_script:
            self.scripts.append(data)

    def handle_endtag(self, tag: str) -> None:
        self._is_script &= tag != "script"


HOSTILE_HTML = '<script>alert(1)</script>"><img src=x onerror=alert(1)>'


def plant_text(run: Path, text: str) -> None:
    """Replace texts of backends, hosts and the scenario in a stored run."""
    manifest = json.loads((run / "manifest.json").read_text())
    manifest["scenario"] |= {"title": text, "question": text}
    manifest["notes"] = [text]
    manifest["versions"]["sut.nginx"] = text
    for host in manifest["hosts"]:
        host["facts"] |= {"distribution": text, "cpu_model": text, "kernel": text}
    (run / "manifest.json").write_text(json.dumps(manifest))
    for path in run.glob("raw/*/trial.json"):
        trial = json.loads(path.read_text())
        trial["probe"]["headers"].append(["X-Evil", text])
        trial["target"] = text
        path.write_text(json.dumps(trial))
    journal = run / "journal.jsonl"
    journal.write_text(journal.read_text().replace('"distribution": "', f'"distribution": {json.dumps(text)[:-1]}'))
