"""Plans of kernel settings for hosts, and the names of settings that Linux has or had."""

from __future__ import annotations

import pytest

from benchkit.agent.operations import Sysctl
from benchkit.hosts.inventory import HostSpec
from benchkit.hosts.tuning import FileLimit, Setting, SettingStatus, plan

SPEC = HostSpec(name="box", address="192.0.2.1", roles=("sut",))
WITH_SUDO = SPEC.model_copy(update={"sudo": True})
FREE = Sysctl("present", "128", writable=True)
HELD = Sysctl("present", "128", writable=False)
ABSENT = Sysctl("absent", None, writable=False)


@pytest.mark.parametrize(
    ("found", "root", "sudo", "can_sudo", "status"),
    [
        (FREE, True, False, None, "apply"),
        (FREE, False, False, None, "apply"),
        (HELD, True, False, None, "read-only"),
        (HELD, True, True, True, "read-only"),
        (HELD, False, False, None, "needs-root"),
        (HELD, False, False, True, "needs-root"),
        (HELD, False, True, True, "apply"),
        (HELD, False, True, False, "no-sudo"),
        (ABSENT, True, True, True, "absent"),
        (Sysctl("unreadable", None, writable=True), True, False, None, "unreadable"),
        (Sysctl("present", "4096", writable=False), False, False, None, "already"),
    ],
)
def test_the_status_of_a_setting(
    found: Sysctl,
    root: bool,  # noqa: FBT001 - a column of the table above
    sudo: bool,  # noqa: FBT001
    can_sudo: bool | None,  # noqa: FBT001
    status: SettingStatus,
) -> None:
    spec = WITH_SUDO if sudo else SPEC
    planned = plan(spec, {"net.core.somaxconn": 4096}, {"net.core.somaxconn": found}, root=root, can_sudo=can_sudo)
    assert [setting.status for setting in planned.settings] == [status]
    assert planned.values == ({"net.core.somaxconn": "4096"} if status == "apply" else {})


def test_sudo_runs_for_what_needs_it_and_is_shown() -> None:
    profile: dict[str, str | int] = {"net.ipv4.ip_local_port_range": "1025\t65535", "net.core.somaxconn": 65535}
    found = {"net.ipv4.ip_local_port_range": HELD, "net.core.somaxconn": FREE}
    planned = plan(WITH_SUDO, profile, found, root=False, can_sudo=True)
    assert planned.commands == (("sudo", "-n", "--", "sysctl", "-q", "-w", "net.ipv4.ip_local_port_range=1025 65535"),)
    assert planned.sentences() == ()


def test_what_is_shared_with_other_hosts_is_left_alone() -> None:
    planned = plan(
        SPEC, {"vm.swappiness": 1}, {"vm.swappiness": FREE}, root=True, can_sudo=None, not_isolated=["vm.swappiness"]
    )
    assert planned.settings == (Setting("vm.swappiness", "1", "128", "not-isolated"),)
    assert planned.sentences() == (
        "box: not isolated, not applied (shared with the other hosts of this machine): vm.swappiness = 1",
    )


def test_every_reason_has_its_sentence() -> None:
    profile = {"a": 1, "b": 1, "c": 1, "d": 128, "e": 1}
    found = {"a": ABSENT, "b": HELD, "c": FREE, "d": FREE, "e": HELD}
    planned = plan(SPEC, profile, found, root=False, can_sudo=None)
    assert planned.sentences() == (
        "box: not applied, this host has no such setting: a = 1",
        "box: not applied, it needs root (`sudo: true` in the inventory would let benchkit try sudo): b = 1, e = 1",
    )
    assert planned.values == {"c": "1"}


def test_a_limit_of_open_files_that_cannot_be_set_is_reported() -> None:
    planned = plan(SPEC, {}, {}, root=False, can_sudo=None, nofile=FileLimit(200000, "the hard limit is 1024"))
    assert planned.sentences() == ("box: not applied, the hard limit is 1024: 200000 open files",)
    assert plan(SPEC, {}, {}, root=False, can_sudo=None, nofile=FileLimit(512)).sentences() == ()
