"""Commands run with sudo are those that the plan lists, in that order: checked with a sudo that logs its calls."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from benchkit.agent.facts import FactsReader
from benchkit.agent.settings import Sysctls
from benchkit.hosts.agent_link import AgentLink
from benchkit.hosts.host import Host, HostChanges
from benchkit.hosts.inventory import HostSpec
from benchkit.hosts.tuning import apply, plan, sudo_commands

pytestmark = [
    pytest.mark.skipif(
        os.geteuid() != 0 or shutil.which("setpriv") is None or shutil.which("sysctl") is None,
        reason="needs a login without rights, and a namespace of its own for its sysctls",
    ),
]

SPEC = HostSpec(name="box", address="192.0.2.1", roles=("sut",), sudo=True)
PROFILE: dict[str, str | int] = {"net.ipv4.ip_local_port_range": "1025 65535", "net.ipv4.tcp_fin_timeout": 31}
NOBODY = 65534


@pytest.fixture
def login(tmp_path: Path) -> Iterator[list[str]]:
    """Command prefix of an unprivileged user in a network namespace as host, with sudo for sysctl only."""
    programs = tmp_path / "bin"
    programs.mkdir()
    shutil.copy(str(shutil.which("sysctl")), programs / "rootly")
    (programs / "rootly").chmod(0o4755)
    (tmp_path / "called").touch()
    (tmp_path / "called").chmod(0o666)
    (programs / "sudo").write_text(
        f'#!/bin/sh\necho "sudo $*" >> {tmp_path}/called\n'
        f'[ "$3" = true ] && exit 0\nshift 3\nexec {programs}/rootly "$@"\n'
    )
    (programs / "sudo").chmod(0o755)
    for folder in (tmp_path, *tmp_path.parents[:3]):
        folder.chmod(folder.stat().st_mode | 0o011)
    home = tmp_path / "theirs"
    home.mkdir(mode=0o700)
    os.chown(home, NOBODY, NOBODY)
    with subprocess.Popen(["unshare", "--net", "sh", "-c", "echo; exec sleep 300"], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        yield [
            *("nsenter", f"--net=/proc/{holder.pid}/ns/net"),
            *("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"),
            *("env", f"PATH={programs}:{os.environ['PATH']}"),
        ]
        holder.kill()


def test_all_that_runs_with_sudo_is_in_the_plan(
    launch: Callable[..., AgentLink], login: list[str], tmp_path: Path
) -> None:
    agent = launch(prefix=login, workdir=tmp_path / "theirs", python="/usr/bin/python3")
    facts = agent.call(FactsReader.gather, {}, [], sudo=True)
    assert facts["can_sudo"] is True
    changes = HostChanges(agent, "box")
    host = cast("Host", SimpleNamespace(name="box", call=agent.call))
    found = agent.call(Sysctls.read, list(PROFILE))
    planned = plan(SPEC, PROFILE, found, root=False, can_sudo=True)
    done = apply(host, planned)
    assert {key: each.outcome for key, each in done.written.items()} == dict.fromkeys(PROFILE, "applied")
    assert [each.failures for each in changes.restore(own=True)] == [[]]
    assert agent.call(Sysctls.read, list(PROFILE)) == found
    listed = sudo_commands([SPEC], [planned])
    assert [each.when for each in listed] == ["connecting", "tuning", "tuning", "restoring", "restoring"]
    assert (tmp_path / "called").read_text().splitlines() == [" ".join(each.argv) for each in listed]


def test_nothing_runs_with_sudo_where_the_inventory_does_not_say_so() -> None:
    assert sudo_commands([SPEC.model_copy(update={"sudo": False})], []) == ()
