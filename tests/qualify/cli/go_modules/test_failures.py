"""In-house Go modules when a watchdog, an upstream proxy or a host key is not as it should be."""

from __future__ import annotations

import time
from pathlib import Path, PurePosixPath

from benchkit.agent.files import FileStore
from benchkit.hosts.connections import connect_all
from benchkit.hosts.files import PlacedFile
from benchkit.hosts.inventory import Inventory
from tests.support.cli.fixtures import Cli
from tests.support.cli.go_modules.hosts import (
    PROXIED,
    SETTINGS,
    Developer,
    find_secrets_on_hosts,
    guidance_of,
    read_go_settings,
)
from tests.support.needs import separate_hosts

pytestmark = separate_hosts

OTHER_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIP1hWkOdXIH5I5cZaSPzwXqBj0HzkP6sVqOI2tCS5h1s"


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
            hosts["dev"].call(FileStore.remove, "people")
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
