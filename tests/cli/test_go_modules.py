"""In-house Go modules on a lab of four hosts: real git, sshd, nginx, go command and module proxies."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

import benchkit
from benchkit.errors import HostError
from benchkit.hosts.connections import Hosts, connect_all
from benchkit.hosts.files import PlacedFile
from benchkit.hosts.inventory import Inventory
from benchkit.hosts.processes import Completed, ProcessSpec, ToFile
from benchkit.lab.lab import down, up
from benchkit.lab.spec import LabHost, LabSpec
from tests.cli.conftest import Cli, CommandResult
from tests.needs import separate_hosts

pytestmark = [pytest.mark.lab, separate_hosts]

ROLES = {"dev": ("dev", "load"), "proxy": ("proxy",), "vcs": ("vcs",), "upstream": ("upstream",)}
GO, SETTINGS = "own/go", "own/settings"
"""Paths in the work directory of `dev`."""
PROXIED = "stacks.proxied.services"
OTHER_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIP1hWkOdXIH5I5cZaSPzwXqBj0HzkP6sVqOI2tCS5h1s"


@pytest.fixture(scope="module")
def inventory() -> Iterator[Inventory]:
    """Lab of a developer, a proxy, a git server and an upstream proxy; checks that nothing is left on them."""
    hosts = tuple(LabHost(name=name, roles=roles) for name, roles in ROLES.items())
    lab = up(LabSpec(name=f"pytest-{os.getpid()}-modules", hosts=hosts))
    try:
        inventory = with_separate_go_settings(lab.inventory())
        before = list_leftovers(inventory)
        yield inventory
        assert list_leftovers(inventory) == before
    finally:
        down(lab.name)


@pytest.fixture
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """State folder of the controller, with the secrets of this session."""
    return tmp_path_factory.getbasetemp() / "state"


@pytest.fixture
def environment(environment: dict[str, str], state: Path) -> dict[str, str]:
    """Environment with that state folder."""
    return environment | {"XDG_STATE_HOME": str(state)}


@pytest.fixture
def hosts_file(inventory: Inventory, tmp_path: Path) -> Path:
    """The lab as an inventory file."""
    hosts = {spec.name: spec.model_dump(mode="json", exclude={"name"}, exclude_none=True) for spec in inventory.hosts}
    path = tmp_path / "four.yaml"
    path.write_text(json.dumps({"hosts": hosts}))
    return path


def with_separate_go_settings(inventory: Inventory) -> Inventory:
    """Return the inventory with a go command on `dev` that has its own settings file, not that of its user."""
    with connect_all(inventory) as hosts:
        dev = hosts["dev"]
        line = f'GOENV="${{GOENV:-{dev.workdir / SETTINGS}}}" exec {dev.facts.programs["go"].path} "$@"'
        dev.files.place([PlacedFile(PurePosixPath(GO), f"#!/bin/sh\n{line}\n".encode(), 0o755)])
        programs = {"go": str(dev.workdir / GO)}
    specs = [each.model_copy(update={"programs": programs}) if each.name == "dev" else each for each in inventory.hosts]
    return inventory.model_copy(update={"hosts": tuple(specs)})


def read_go_settings(inventory: Inventory) -> list[str] | None:
    """Return the lines of that settings file; None if there is none."""
    with connect_all(inventory) as hosts:
        shown = hosts["dev"].processes.run(["cat", SETTINGS])
    return shown.stdout.decode().splitlines() if shown.ok else None


def secrets(state: Path) -> set[str]:
    """Return all secrets of the controller: passwords, their hashes, and lines of private keys."""
    found: set[str] = set()
    for file in (state / "benchkit" / "kept").iterdir():
        text = file.read_text()
        if file.name.startswith("password-"):
            found |= set(json.loads(text).values())
        elif match := re.search(r"PRIVATE KEY-----\n(.*?)-----END", text, re.DOTALL):
            found |= {line for line in match[1].splitlines() if len(line) > 20}
    assert len(found) >= 15
    # The first line of all unencrypted OpenSSH keys is the same: it names the format.
    return {secret for secret in found if not secret.startswith("b3BlbnNzaC1rZXkt")}


def find_secrets(text: str, state: Path) -> list[str]:
    """Return the secrets that a text contains."""
    return [secret for secret in secrets(state) if secret in text]


def find_secrets_on_hosts(inventory: Inventory, state: Path) -> list[tuple[str, str]]:
    """Return host and file of each file below the work directories that contains a secret."""
    with connect_all(inventory) as hosts:
        arguments = [word for secret in sorted(secrets(state)) for word in ("-e", secret)]
        found = ((host.name, host.processes.run(["grep", "-rlaF", *arguments, "."]).stdout.decode()) for host in hosts)
        return [(host, file) for host, files in found for file in files.splitlines()]


def list_leftovers(inventory: Inventory) -> list[dict[str, Any]]:
    """Return everything that a service could leave on its hosts: processes, ports, records, caches, logs."""
    with connect_all(inventory) as hosts:
        return [
            {
                "processes": sorted(
                    line
                    for line in host.processes.run(["ps", "-eo", "args="]).stdout.decode().splitlines()
                    if not re.search(r"ps -eo|python|sshd: |/sshd_config|benchkit-", line)
                ),
                "ports": host.processes.run(["ss", "-Hlnt"]).stdout.decode().split(),
                "records": [record.text for record in host.changes.records() if record.state != "mine"],
                "holder": host.changes.state().holder,
                "caches": host.processes.run(["find", ".", "-name", "cache", "-o", "-name", "scratch"]).stdout,
                "logs": host.processes.run(["find", ".", "-name", "*.log"]).stdout,
            }
            for host in hosts
        ]


@dataclass
class Developer:
    """A developer on the host `dev` who follows the instructions of `service up`."""

    hosts: Hosts
    guidance: Mapping[str, str]
    pulls: int = 0
    folders: list[PurePosixPath] = field(default_factory=list)

    def start(self, user: str | None, module: str) -> ProcessSpec:
        """Prepare a `go get` with an empty module cache, and return the process to start."""
        dev = self.hosts["dev"]
        self.pulls += 1
        folder = dev.files.mkdir_temporary(f"people/{self.pulls}")
        self.folders.append(folder)
        files = [PlacedFile(folder / "go.mod", b"module example.com/x\n\ngo 1.20\n")]
        certificate = self.guidance["certificate to trust (SSL_CERT_FILE, or the system's store)"]
        files.append(PlacedFile(folder / "certificate.pem", Path(certificate).read_bytes()))
        if user is not None:
            lines = Path(self.guidance[f"lines for the ~/.netrc of {user}"]).read_bytes()
            files.append(PlacedFile(folder / "netrc", lines, 0o600))
        dev.files.place(files)
        go = dev.facts.programs["go"].path
        home = {"HOME": str(folder), "GOENV": f"{folder}/env", "GOFLAGS": "-modcacherw", "GOTOOLCHAIN": "local"}
        env = home | {"NETRC": f"{folder}/netrc", "SSL_CERT_FILE": f"{folder}/certificate.pem"}
        line = self.guidance["every developer runs once"].split()
        assert line[:3] == ["go", "env", "-w"]
        assert dev.processes.run([go, *line[1:]], env=env, cwd=folder).ok
        return ProcessSpec([go, "get", module], env=env, cwd=folder)

    def pull(self, user: str | None, module: str) -> Completed:
        """Run a `go get` with an empty module cache, and return its result."""
        start = self.start(user, module)
        return self.hosts["dev"].processes.run(start.argv, env=start.env, cwd=start.cwd, timeout_s=60)

    def remove_folders(self) -> None:
        """Remove the folders of all pulls."""
        for folder in self.folders:
            self.hosts["dev"].files.remove(folder)


def guidance_of(result: CommandResult) -> dict[str, str]:
    assert result.code == 0, result.err
    return {each["what"]: each["value"] for each in result.document()["guidance"]}


def test_the_scenario_verifies_the_stack_and_measures_every_cell(
    cli: Cli, hosts_file: Path, tmp_path: Path, state: Path
) -> None:
    result = cli("run", "go-module-proxy", "-i", hosts_file, "--scale", "smoke", "--json")
    assert result.code == 0, result.err
    summary = result.document()
    assert (summary["status"], summary["failures"]) == ("done", {})
    frame = benchkit.load("trials", store=tmp_path / "store")
    assert len(frame) == len(summary["cells"]) >= 3
    assert (frame["requests"] == 4).all()
    assert (frame[["errors_connect", "errors_read", "errors_write", "non_2xx"]] == 0).all().all()
    raw = next((tmp_path / "store" / "runs").iterdir()) / "raw"
    trials = [json.loads((folder / "trial.json").read_text()) for folder in raw.iterdir()]
    # Checksums are the same directly and through the proxy, in every trial.
    assert {(trial["probe"]["status"], trial["probe"]["body_sha256"]) for trial in trials} == {
        (200, trials[0]["probe"]["body_sha256"])
    }
    logs = [(folder / "developer.dev.log").read_text() for folder in raw.iterdir()]
    for log in logs:
        assert "mycompany.com/go/module1 v1.99.0\n" in log
        assert re.search(r"mycompany.com/go/module2 v1\.0\.1-0\.[0-9]{14}-[0-9a-f]{12}\n", log)
        assert "mycompany.com/go/module2/v2 v2.0.0\n" in log
        assert "mycompany.com/go/module2/sub v0.1.0\n" in log
        assert "github.com/beorn7/perks v1.0.1\n" in log
        assert "built and run in " in log
    assert cli("report", "latest").code == 0
    assert find_secrets(result.out + result.err, state) == []
    files = [path for path in (tmp_path / "store").rglob("*") if path.is_file()]
    assert {"journal.jsonl", "manifest.json", "report.html", "developer.dev.log"} <= {path.name for path in files}
    assert {path: found for path in files if (found := find_secrets(path.read_bytes().decode("latin-1"), state))} == {}


def test_proxy_and_files_send_the_same_response(cli: Cli, hosts_file: Path, tmp_path: Path) -> None:
    one = "factors.request=[mycompany.com/go/module1/@v/v1.99.0.zip]"
    settings = ("--set", "factors.proxy=[goproxy]", "--set", one, "--set", "baseline=null")
    result = cli("run", "go-module-requests", "-i", hosts_file, "--scale", "smoke", *settings, "--json")
    assert result.code == 0, result.err
    frame = benchkit.load("trials", store=tmp_path / "store")
    assert sorted(frame["factor_files"]) == ["false", "true"]
    assert (frame[["errors_connect", "errors_read", "errors_write", "non_2xx"]] == 0).all().all()
    raw = next((tmp_path / "store" / "runs").iterdir()) / "raw"
    probes = [json.loads((folder / "trial.json").read_text())["probe"] for folder in raw.iterdir()]
    assert len({probe["body_sha256"] for probe in probes}) == 1
    disk_usage = benchkit.load("telemetry", store=tmp_path / "store").query("metric == 'folder_bytes'")
    cache = disk_usage[(disk_usage["service"] == "proxy") & (disk_usage["instance"] == "cache")]
    assert len(cache) == 2
    assert (cache["value"] > 20_000).all()  # a zip, and the clone of a repository with a hundred versions


PULLS = 10
"""Concurrent pulls; `make bench` has the fifty that the service must sustain."""


def messages_of(result: CommandResult) -> str:
    """Return the messages of `service up` after its first line, which names the cell."""
    first, _, others = result.err.partition("\n")
    assert first.startswith("the stack of cell stack=proxied,cache=warm,")
    assert "; --cell chooses another, as " in first
    return others


def test_a_stack_that_is_up_serves_users_by_their_rights(
    cli: Cli, hosts_file: Path, inventory: Inventory, state: Path
) -> None:
    command = ("go-module-proxy", "-i", hosts_file, "--json")
    guidance = guidance_of(cli("service", "up", *command))
    assert read_go_settings(inventory) is None
    try:
        status = cli("service", "status", *command)
        assert (status.code, status.document()["up"]) == (0, True)
        second = cli("service", "up", *command)
        assert guidance_of(second) == guidance
        assert messages_of(second) == "service go-module-proxy is already up\n"
        applied = cli("service", "up", *command, "--apply")
        assert guidance_of(applied) == guidance
        assert (
            messages_of(applied)
            == "service go-module-proxy is already up\napplying the settings of the go command on dev\n"
        )
        assert messages_of(cli("service", "up", *command, "--apply")) == "service go-module-proxy is already up\n"
        assert read_go_settings(inventory) == guidance["every developer runs once"].split()[3:]
        with connect_all(inventory) as hosts, pytest.raises(HostError, match="in use: service go-module-proxy of "):
            hosts.lock("another")
        with connect_all(inventory) as hosts:
            developer = Developer(hosts, guidance)
            module1, module2 = (f"mycompany.com/go/{name}" for name in ("module1@v1.50.0", "module2@v1.0.0"))
            public = "github.com/beorn7/perks@v1.0.1"
            expected = {
                "alice": {module1: True, module2: True, public: True},
                "bob": {module1: True, module2: False, public: True},
                None: {module1: False, public: False},
            }
            pulled = {user: {m: developer.pull(user, m).ok for m in modules} for user, modules in expected.items()}
            assert pulled == expected
            assert developer.pull("alice", "mycompany.com/go/new-8@v1.1.0").ok
            denied = developer.pull("bob", "mycompany.com/go/new-7@v1.1.0").stderr.decode()
            assert "404 Not Found" in denied
            assert "no such module, or no right to it" in denied
            assert "401 Unauthorized" in developer.pull(None, module1).stderr.decode()
            missing = developer.pull("alice", "mycompany.com/go/nothing@v1.0.0").stderr.decode()
            assert "no such repository: nothing" in missing
            log = hosts["proxy"].files.read("services/go-module-proxy/proxy.log").decode()
            assert "/mycompany.com/go/new-8/@v/v1.1.0.info" in log
            assert "/new-7/" not in log  # requests without the right do not reach the proxy

            starts = [developer.start("alice", "mycompany.com/go/module1@v1.99.0") for _ in range(PULLS)]
            logs = [PurePosixPath(f"people/{number}.txt") for number in range(PULLS)]
            began = hosts["dev"].processes.start_all(
                ProcessSpec(start.argv, env=start.env, cwd=start.cwd, stdout=ToFile(log), stderr="stdout")
                for start, log in zip(starts, logs, strict=True)
            )
            ended = [process.wait(90) for process in began]
            output = "".join(hosts["dev"].files.read(log).decode() for log in logs)
            assert [end.exit_code for end in ended if end is not None] == [0] * PULLS, output
            hosts["dev"].files.remove("people")
            developer.remove_folders()
            running = "".join(host.processes.run(["ps", "axeww", "-o", "args="]).stdout.decode() for host in hosts)
            assert "goproxyio -listen" in running
            assert find_secrets(running + second.out + second.err, state) == []
    finally:
        stopped = cli("service", "down", *command)
    assert sorted(stopped.document()["hosts"]) == ["dev", "proxy", "upstream", "vcs"]
    assert read_go_settings(inventory) is None
    assert find_secrets_on_hosts(inventory, state) == []


def test_no_secret_stays_on_a_host_whose_watchdog_takes_the_stack_down(
    cli: Cli, hosts_file: Path, inventory: Inventory, state: Path
) -> None:
    command = ("go-module-proxy", "-i", hosts_file, "--json")
    assert cli("service", "up", *command).code == 0
    try:
        assert {host for host, _ in find_secrets_on_hosts(inventory, state)} == {"proxy", "vcs"}
        with connect_all(inventory) as hosts:
            for host in (hosts["proxy"], hosts["vcs"]):
                holder = host.changes.state().holder
                assert holder is not None
                # The watchdog of `vcs` is killed, so that `down` finds its records.
                signal = "-KILL" if host.name == "vcs" else "-TERM"
                assert host.processes.run(["kill", signal, str(holder.pid)]).ok
                while host.changes.state().holder is not None:
                    time.sleep(0.05)
    finally:
        assert sorted(cli("service", "down", *command).document()["hosts"]) == ["upstream", "vcs"]
    assert find_secrets_on_hosts(inventory, state) == []


def test_a_truncated_zip_reaches_neither_cache_nor_developer(cli: Cli, hosts_file: Path, inventory: Inventory) -> None:
    with connect_all(inventory) as hosts:
        hosts["dev"].files.place([PlacedFile(PurePosixPath(SETTINGS), b"GOPROXY=https://before.example\n")])
    private = "[{get: mycompany.com/go/module1@v1.99.0, version: v1.99.0}]"
    settings = (f"{PROXIED}.upstream.inject_fault=half", f"{PROXIED}.developer.proof={private}")
    options = [word for setting in settings for word in ("--set", setting)]
    command = ("go-module-proxy", "-i", hosts_file, "--json")
    guidance = guidance_of(cli("service", "up", *command, *options, "--apply"))
    try:
        assert read_go_settings(inventory) == guidance["every developer runs once"].split()[3:]
        with connect_all(inventory) as hosts:
            developer = Developer(hosts, guidance)
            failed = developer.pull("alice", "github.com/beorn7/perks@v1.0.1")
            assert not failed.ok
            assert (
                "github.com/beorn7/perks@v1.0.1 (zip): the upstream proxy sent an invalid response: zip: not a valid zip file"
            ) in failed.stderr.decode()
            cached = hosts["proxy"].processes.run(["find", "stack", "-name", "*.zip", "-path", "*/cache/download/*"])
            assert "/mycompany.com/go/module1/@v/v1.99.0.zip" in cached.stdout.decode()
            assert "perks" not in cached.stdout.decode()
            assert developer.pull("alice", "mycompany.com/go/module2@v1.0.0").ok
            developer.remove_folders()
            hosts["dev"].files.remove("people")
    finally:
        cli("service", "down", *command)
    assert read_go_settings(inventory) == ["GOPROXY=https://before.example"]


def test_a_changed_host_key_fails_up_and_leaves_nothing(cli: Cli, hosts_file: Path) -> None:
    result = cli("service", "up", "go-module-proxy", "-i", hosts_file, "--set", f"{PROXIED}.proxy.host_key={OTHER_KEY}")
    assert result.code == 1
    assert "dev: developer (go-developer) did not start" in result.err
    assert (
        "mycompany.com/go/module1@v1.99.0 failed at git over SSH: the git server's host key differs from the expected one"
    ) in result.err
