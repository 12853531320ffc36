"""State of the hosts that serve Go modules: settings, secrets, leftovers; and a developer on one of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from benchkit.agent.files import FileStore
from benchkit.agent.operations import Completed, ProcessSpec
from benchkit.agent.undo import Undo
from benchkit.hosts.connections import Hosts, connect_all
from benchkit.hosts.files import PlacedFile
from benchkit.hosts.inventory import Inventory
from tests.support.cli.fixtures import CommandResult


def secrets(state: Path) -> set[str]:
    """Return all secrets of the controller: passwords, and lines of private keys."""
    found: set[str] = set()
    for file in (state / "benchkit" / "kept").iterdir():
        text = file.read_text()
        if file.name.startswith("password-"):
            found.add(text)
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
                "records": [record.text for record in host.call(Undo.traces).records if record.state != "mine"],
                "holder": host.call(Undo.traces).holder,
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
        folder = dev.call(FileStore.mkdir_temporary, f"people/{self.pulls}")
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
        return self.hosts["dev"].processes.run(start.argv, env=start.env, cwd=start.cwd, timeout_s=300)

    def remove_folders(self) -> None:
        """Remove the folders of all pulls."""
        for folder in self.folders:
            self.hosts["dev"].call(FileStore.remove, folder)


def guidance_of(result: CommandResult) -> dict[str, str]:
    assert result.code == 0, result.err
    return {each["what"]: each["value"] for each in result.document()["guidance"]}
