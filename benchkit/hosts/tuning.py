"""Tuning: which settings of a profile a host takes, which it does not and why, and having it take them.

Planning is pure. What was applied is put back by the agent, exactly as it was found; see `benchkit.hosts.host_changes`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from benchkit.errors import HostError
from benchkit.hosts.host_changes import Changes, Sysctl, Written
from benchkit.hosts.inventory import HostSpec
from benchkit.hosts.processes import Processes

SUDO_SYSCTL = ("sudo", "-n", "--", "sysctl", "-q", "-w")
"""How a setting is written where the login user may not and the inventory allows sudo; `key=value` follows."""

SUDO_CHECK = ("sudo", "-n", "--", "true")
"""How the agent finds out, whenever a host that allows sudo is connected, whether it asks for no password."""

SettingStatus = Literal[
    "apply", "already", "absent", "unreadable", "read-only", "not-isolated", "needs-root", "no-sudo"
]

_WHY_NOT: Mapping[SettingStatus, str] = {
    "absent": "not applied, this host has no such setting",
    "unreadable": "not applied, it cannot be read and so could not be put back",
    "read-only": "not applied, it is read-only here, for root too",
    "not-isolated": "not isolated, not applied (shared with the other hosts of this machine)",
    "needs-root": "not applied, it needs root (`sudo: true` in the inventory would let benchkit try sudo)",
    "no-sudo": "not applied, it needs root, and `sudo -n` is refused here",
}


@dataclass(frozen=True)
class Setting:
    """One setting of a profile on one host."""

    key: str
    value: str
    """As the profile wants it."""
    found: str | None
    """As the host has it."""
    status: SettingStatus
    sudo: bool = False
    """Whether it is applied through sudo."""

    def command(self) -> tuple[str, ...] | None:
        """What runs with sudo, to be shown beforehand; None where nothing does."""
        return (*SUDO_SYSCTL, f"{self.key}={self.value}") if self.sudo else None


@dataclass(frozen=True)
class FileLimit:
    """The limit of open files that processes of ours are to have on one host."""

    wanted: int
    why_not: str | None = None
    """Why they cannot have it; None: they get it."""


@dataclass(frozen=True)
class TuningPlan:
    """What a profile comes to on one host."""

    host: str
    settings: tuple[Setting, ...]
    nofile: FileLimit | None = None

    @property
    def values(self) -> dict[str, str]:
        """What is to be written, in the profile's order."""
        return {setting.key: setting.value for setting in self.settings if setting.status == "apply"}

    @property
    def commands(self) -> tuple[tuple[str, ...], ...]:
        """What would run with sudo."""
        return tuple(command for setting in self.settings if (command := setting.command()))

    @property
    def restoring(self) -> tuple[tuple[str, ...], ...]:
        """What would run with sudo to put everything back as it was found: what was written last comes first."""
        former = (replace(setting, value=setting.found or "") for setting in reversed(self.settings))
        return tuple(command for setting in former if (command := setting.command()))

    def sentences(self) -> tuple[str, ...]:
        """What is not applied, a sentence for each reason; for people."""
        by_reason: dict[str, list[str]] = {}
        for setting in self.settings:
            if setting.status in _WHY_NOT:
                by_reason.setdefault(_WHY_NOT[setting.status], []).append(f"{setting.key} = {setting.value}")
        said = [f"{self.host}: {reason}: {', '.join(settings)}" for reason, settings in by_reason.items()]
        if self.nofile is not None and self.nofile.why_not is not None:
            said.append(f"{self.host}: not applied, {self.nofile.why_not}: open files {self.nofile.wanted}")
        return tuple(said)


@dataclass(frozen=True)
class SudoCommand:
    """Something that runs with sudo."""

    host: str
    when: Literal["connecting", "tuning", "restoring"]
    """Restoring is the agent's, at the end of the run, or its guardian's where the controller is gone."""
    argv: tuple[str, ...]

    def __str__(self) -> str:
        """For people."""
        return f"{self.host}, {self.when}: {' '.join(self.argv)}"


@dataclass(frozen=True)
class Tuned:
    """What became of a plan."""

    written: Mapping[str, Written]
    sentences: tuple[str, ...]
    """What did not come to pass though it was planned, for people."""


def plan(
    spec: HostSpec,
    profile: Mapping[str, str | int],
    found: Mapping[str, Sysctl],
    *,
    root: bool,
    can_sudo: bool | None,
    not_isolated: Collection[str] = (),
    nofile: FileLimit | None = None,
) -> TuningPlan:
    """What `profile` comes to on a host that has the settings `found`; pure."""
    shared = frozenset(not_isolated)
    settings = []
    for key, wanted in profile.items():
        value = " ".join(str(wanted).split())
        sysctl = found[key]
        status = _fate(sysctl, value, spec, root=root, can_sudo=can_sudo, shared=key in shared)
        sudo = status == "apply" and not sysctl.writable
        settings.append(Setting(key, value, sysctl.value, status, sudo))
    return TuningPlan(spec.name, tuple(settings), nofile)


def sudo_commands(specs: Iterable[HostSpec], plans: Sequence[TuningPlan]) -> tuple[SudoCommand, ...]:
    """All that runs with sudo on these hosts: at each connection, and where these plans are carried out; pure."""
    return (
        *(SudoCommand(spec.name, "connecting", SUDO_CHECK) for spec in specs if spec.sudo),
        *(SudoCommand(each.host, "tuning", command) for each in plans for command in each.commands),
        *(SudoCommand(each.host, "restoring", command) for each in reversed(plans) for command in each.restoring),
    )


def file_limit(processes: Processes, wanted: int, hard: int | None) -> FileLimit:
    """Whether processes on a host can have so many open files: those above the hard limit are tried with `true`."""
    if hard is None or wanted <= hard:
        return FileLimit(wanted)
    try:
        processes.run(("true",), nofile=wanted)
    except HostError as error:
        return FileLimit(wanted, error.why or error.what)
    return FileLimit(wanted)


def apply(changes: Changes, planned: TuningPlan) -> Tuned:
    """Carry a plan out on its host and read every setting back. Raises HostError."""
    if not planned.values:
        return Tuned({}, ())
    written = changes.write(planned.values, sudo=SUDO_SYSCTL if planned.commands else None)
    sentences = [
        f"{planned.host}: {key} = {planned.values[key]} not applied: {_short_of(outcome)}"
        for key, outcome in written.items()
        if outcome.outcome not in ("applied", "already")
    ]
    return Tuned(written, tuple(sentences))


def _fate(
    sysctl: Sysctl, value: str, spec: HostSpec, *, root: bool, can_sudo: bool | None, shared: bool
) -> SettingStatus:
    status: SettingStatus = "apply" if sysctl.writable or can_sudo else "no-sudo"
    if sysctl.state == "present" and (sysctl.value or "").split() == value.split():
        status = "already"
    elif shared:  # also where only the machine has it, and not the host
        status = "not-isolated"
    elif sysctl.state != "present":
        status = sysctl.state
    elif not sysctl.writable and root:
        status = "read-only"
    elif not sysctl.writable and not spec.sudo:
        status = "needs-root"
    return status


def _short_of(outcome: Written) -> str:
    if outcome.outcome == "differs":
        return f"the kernel made {outcome.value} of it"
    return outcome.why or outcome.outcome
