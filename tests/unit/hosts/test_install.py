from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from benchkit.hosts.install import InstallStep, PackageState, StepOutcome, install_steps, shell_line, survey
from benchkit.hosts.packages import Manager

APT = (
    *("env", "DEBIAN_FRONTEND=noninteractive", "NEEDRESTART_SUSPEND=1"),
    *("apt-get", "install", "--yes", "--no-install-recommends"),
    *("-o", "DPkg::Lock::Timeout=300", "-o", "Dpkg::Options::=--force-confold"),
)
UPDATE = ("apt-get", "update", "-o", "DPkg::Lock::Timeout=300")
POLICY = "/usr/sbin/policy-rc.d"


def argvs(steps: tuple[InstallStep, ...]) -> list[tuple[str, ...]]:
    return [step.argv for step in steps]


def test_packages_without_daemons_take_one_step() -> None:
    assert install_steps(PackageState("apt", "root"), ["wrk", "hey"]) == (
        InstallStep((*APT, "wrk", "hey"), retry_after=UPDATE),
    )


def test_daemons_are_kept_from_starting_now_and_at_the_next_boot() -> None:
    steps = install_steps(PackageState("apt", "root"), ["openssh-server", "nginx"])
    assert argvs(steps) == [
        ("install", "--mode=755", "/dev/stdin", POLICY),
        (*APT, "openssh-server", "nginx"),
        ("rm", "--force", POLICY),
        ("systemctl", "disable", "ssh.service"),
        ("systemctl", "disable", "ssh.socket"),
        ("systemctl", "disable", "nginx.service"),
    ]
    assert [step.always for step in steps] == [False, False, True, True, True, True]


def test_without_systemd_init_scripts_are_disabled() -> None:
    steps = install_steps(PackageState("apt", "root", systemd=False), ["openssh-server", "nginx"])
    assert argvs(steps)[-2:] == [("update-rc.d", "ssh", "disable"), ("update-rc.d", "nginx", "disable")]


def test_a_daemon_that_was_there_before_is_left_alone() -> None:
    before = frozenset({"nginx.service"})
    steps = install_steps(PackageState("apt", "root", units_before=before), ["nginx", "wrk"])
    assert argvs(steps) == [(*APT, "nginx", "wrk")]


def test_a_policy_of_the_host_is_neither_replaced_nor_removed() -> None:
    steps = install_steps(PackageState("apt", "root", policy=True), ["nginx"])
    assert argvs(steps) == [(*APT, "nginx"), ("systemctl", "disable", "nginx.service")]


def test_lists_are_updated_first_only_where_they_do_not_know_the_packages() -> None:
    steps = install_steps(PackageState("apt", "root", lists_current=False), ["wrk"])
    assert steps == (InstallStep(UPDATE), InstallStep((*APT, "wrk")))


def test_with_sudo_every_command_goes_through_it() -> None:
    steps = install_steps(PackageState("apt", "sudo"), ["nginx"])
    assert {argv[:2] for argv in argvs(steps)} == {("sudo", "-n")}
    assert steps[1].retry_after == ("sudo", "-n", *UPDATE)


@pytest.mark.parametrize(
    ("manager", "line"),
    [
        ("dnf", "sudo dnf install --assumeyes nginx"),
        ("apk", "sudo apk add nginx"),
        ("pacman", "sudo pacman --sync --needed --noconfirm nginx"),
    ],
)
def test_other_managers_get_their_one_line(manager: Manager, line: str) -> None:
    assert shell_line(install_steps(PackageState(manager, "root"), ["nginx"]), sudo=True) == line


def test_nothing_to_install_takes_no_step() -> None:
    assert install_steps(PackageState("apt", "root"), []) == ()


def test_a_line_of_several_steps_asks_sudo_once() -> None:
    line = shell_line(install_steps(PackageState("apt", "root"), ["nginx"]), sudo=True)
    assert line.startswith("sudo sh -c '")
    assert line.count("sudo") == 1
    assert "\n" not in line


@dataclass
class Host:
    """A host of which only this is known: the commands that succeed there."""

    succeeding: set[tuple[str, ...]]
    asked: list[tuple[str, ...]] = field(default_factory=list)

    def run(self, argv: tuple[str, ...], *, stdin: str | None = None, shown: bool = True) -> StepOutcome:
        assert stdin is None
        assert not shown
        self.asked.append(argv)
        return StepOutcome(0 if argv in self.succeeding else 1)


SIMULATE = ("apt-get", "install", "--simulate", "--quiet=2", "--no-install-recommends", "openssh-server", "nginx")


def test_survey_of_a_host_with_systemd_and_its_own_nginx() -> None:
    host = Host({("test", "-x", "/usr/bin/systemctl"), ("test", "-e", "/etc/systemd/system/nginx.service"), SIMULATE})
    ground = survey(host, "apt", "sudo", ["openssh-server", "nginx"])
    assert ground == PackageState("apt", "sudo", systemd=True, units_before=frozenset({"nginx.service"}))


def test_survey_of_a_host_without_systemd_and_without_lists() -> None:
    host = Host({("test", "-e", "/etc/init.d/ssh"), ("test", "-e", POLICY)})
    assert survey(host, "apt", "root", ["openssh-server", "nginx"]) == PackageState(
        "apt",
        "root",
        lists_current=False,
        policy=True,
        systemd=False,
        units_before=frozenset({"ssh.service", "ssh.socket"}),
    )


def test_a_policy_left_behind_by_an_installation_that_was_cut_off_is_our_own() -> None:
    mark = "benchkit: no daemon starts while its package is installed"
    host = Host({("test", "-e", POLICY), ("grep", "--quiet", mark, POLICY), SIMULATE})
    ground = survey(host, "apt", "root", ["openssh-server", "nginx"])
    assert not ground.policy
    steps = install_steps(ground, ["nginx"])
    assert steps[0].stdin is not None
    assert mark in steps[0].stdin


def test_survey_asks_nothing_of_other_managers() -> None:
    host = Host(set())
    assert survey(host, "dnf", "root", ["nginx"]) == PackageState("dnf", "root")
    assert host.asked == []
