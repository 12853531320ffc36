"""In-house Go modules as a service that is up for developers."""

from __future__ import annotations

import time
from pathlib import Path, PurePosixPath

import pytest

from benchkit.agent.files import FileStore
from benchkit.agent.operations import ProcessSpec, ToFile
from benchkit.agent.undo import Undo
from benchkit.errors import HostError
from benchkit.hosts.connections import connect_all
from benchkit.hosts.inventory import Inventory
from tests.support.cli.fixtures import Cli, CommandResult
from tests.support.cli.go_modules.hosts import (
    Developer,
    find_secrets,
    find_secrets_on_hosts,
    guidance_of,
)
from tests.support.needs import separate_hosts

pytestmark = separate_hosts

PULLS = 10
"""Concurrent pulls; `make bench` has the fifty that the service must sustain."""


def messages_of(result: CommandResult) -> str:
    """Return the messages of `service up` after its first line, which names the cell."""
    first, _, others = result.err.partition("\n")
    assert first.startswith("the stack of cell stack=proxied,cache=warm,")
    assert "; --cell chooses another, such as " in first
    return others


def test_a_stack_that_is_up_serves_users_by_their_rights(
    cli: Cli, hosts_file: Path, inventory: Inventory, state: Path
) -> None:
    command = ("go-module-proxy", "-i", hosts_file, "--json")
    guidance = guidance_of(cli("service", "up", *command))
    try:
        status = cli("service", "status", *command)
        assert (status.code, status.document()["up"]) == (0, True)
        second = cli("service", "up", *command)
        assert guidance_of(second) == guidance
        assert messages_of(second) == "service go-module-proxy is already up\n"
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
            hosts["dev"].call(FileStore.remove, "people")
            developer.remove_folders()
            running = "".join(host.processes.run(["ps", "axeww", "-o", "args="]).stdout.decode() for host in hosts)
            assert "goproxyio -listen" in running
            assert find_secrets(running + second.out + second.err, state) == []
    finally:
        stopped = cli("service", "down", *command)
    assert sorted(stopped.document()["hosts"]) == ["proxy", "upstream", "vcs"]
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
                holder = host.call(Undo.traces).holder
                assert holder is not None
                # The watchdog of `vcs` is killed, so that `down` finds its records.
                signal = "-KILL" if host.name == "vcs" else "-TERM"
                assert host.processes.run(["kill", signal, str(holder.pid)]).ok
                while host.call(Undo.traces).holder is not None:
                    time.sleep(0.05)
    finally:
        assert sorted(cli("service", "down", *command).document()["hosts"]) == ["upstream", "vcs"]
    assert find_secrets_on_hosts(inventory, state) == []
