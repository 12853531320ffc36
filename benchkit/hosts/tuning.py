"""Tuning: plans the kernel settings that a host accepts, and applies them.

Planning is pure. The agent restores the former values exactly; see `benchkit.agent.undo`.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from benchkit.agent.operations import Sysctl, SysctlOutcome
from benchkit.agent.settings import Sysctls
from benchkit.errors import HostError
from benchkit.hosts.host import ChangeScope, Host
from benchkit.hosts.inventory import HostSpec
from benchkit.hosts.processes import Processes

logger = logging.getLogger(__name__)

SUDO_SYSCTL = ("sudo", "-n", "--", "sysctl", "-q", "-w")
"""Command that writes a setting where the inventory allows sudo and the login user may not write; `key=value`
follows."""

SUDO_CHECK = ("sudo", "-n", "--", "true")
"""Command that checks, at each connection to a host that allows sudo, that sudo needs no password."""

SettingStatus = Literal[
    "apply", "already", "absent", "unreadable", "read-only", "not-isolated", "needs-root", "no-sudo"
]

_REASONS: Mapping[SettingStatus, str] = {
    "absent": "not applied, this host has no such setting",
    "unreadable": "not applied, it cannot be read and so could not be restored",
    "read-only": "not applied, it is read-only here, even for root",
    "not-isolated": "not isolated, not applied (shared with the other hosts of this machine)",
    "needs-root": "not applied, it needs root (`sudo: true` in the inventory would let benchkit try sudo)",
    "no-sudo": "not applied, it needs root, and `sudo -n` is refused here",
}


@dataclass(frozen=True)
class Setting:
    """One setting of a tuning on one host."""

    key: str
    value: str
    """Value in the tuning."""
    found: str | None
    """Value on the host."""
    status: SettingStatus
    sudo: bool = False
    """True where it is applied through sudo."""

    def command(self) -> tuple[str, ...] | None:
        """Return the command that runs with sudo, for display; None where sudo is not used."""
        return (*SUDO_SYSCTL, f"{self.key}={self.value}") if self.sudo else None


@dataclass(frozen=True)
class FileLimit:
    """The limit of open files for processes that benchkit starts on one host."""

    wanted: int
    why_not: str | None = None
    """Reason why it cannot be set; None where it can."""


@dataclass(frozen=True)
class TuningPlan:
    """The settings of a tuning on one host, with their status."""

    host: str
    settings: tuple[Setting, ...]
    nofile: FileLimit | None = None

    @property
    def values(self) -> dict[str, str]:
        """Values to write, in the order of the tuning."""
        return {setting.key: setting.value for setting in self.settings if setting.status == "apply"}

    @property
    def commands(self) -> tuple[tuple[str, ...], ...]:
        """Commands that run with sudo to apply the plan."""
        return tuple(command for setting in self.settings if (command := setting.command()))

    @property
    def restore_commands(self) -> tuple[tuple[str, ...], ...]:
        """Commands that run with sudo to restore the former values, the last written first."""
        former = (replace(setting, value=setting.found or "") for setting in reversed(self.settings))
        return tuple(command for setting in former if (command := setting.command()))

    def sentences(self) -> tuple[str, ...]:
        """Return one sentence for each reason why settings are not applied, naming these settings."""
        by_reason: dict[str, list[str]] = {}
        for setting in self.settings:
            if setting.status in _REASONS:
                by_reason.setdefault(_REASONS[setting.status], []).append(f"{setting.key} = {setting.value}")
        sentences = [f"{self.host}: {reason}: {', '.join(settings)}" for reason, settings in by_reason.items()]
        if self.nofile is not None and self.nofile.why_not is not None:
            sentences.append(f"{self.host}: not applied, {self.nofile.why_not}: {self.nofile.wanted} open files")
        return tuple(sentences)


@dataclass(frozen=True)
class SudoCommand:
    """A command that runs with sudo."""

    host: str
    when: Literal["connecting", "tuning", "restoring"]
    """Occasion; the agent restores at the end of the run, or its watchdog where the controller is lost."""
    argv: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.host}, {self.when}: {' '.join(self.argv)}"


@dataclass(frozen=True)
class TuningResult:
    """The outcome of applying a plan."""

    written: Mapping[str, SysctlOutcome]
    sentences: tuple[str, ...]
    """Planned settings that were not applied, as sentences."""


def plan(
    spec: HostSpec,
    tuning: Mapping[str, str | int],
    found: Mapping[str, Sysctl],
    *,
    root: bool,
    can_sudo: bool | None,
    not_isolated: Collection[str] = (),
    nofile: FileLimit | None = None,
) -> TuningPlan:
    """Plan the settings of `tuning` on a host whose settings are `found`; pure."""
    shared = frozenset(not_isolated)
    settings = []
    for key, wanted in tuning.items():
        value = " ".join(str(wanted).split())
        sysctl = found[key]
        status = _status(sysctl, value, spec, root=root, can_sudo=can_sudo, shared=key in shared)
        sudo = status == "apply" and not sysctl.writable
        settings.append(Setting(key, value, sysctl.value, status, sudo))
    return TuningPlan(spec.name, tuple(settings), nofile)


def sudo_commands(specs: Iterable[HostSpec], plans: Sequence[TuningPlan]) -> tuple[SudoCommand, ...]:
    """Return all commands that run with sudo on these hosts, at each connection and for these plans; pure."""
    return (
        *(SudoCommand(spec.name, "connecting", SUDO_CHECK) for spec in specs if spec.sudo),
        *(SudoCommand(each.host, "tuning", command) for each in plans for command in each.commands),
        *(
            SudoCommand(each.host, "restoring", command)
            for each in reversed(plans)
            for command in each.restore_commands
        ),
    )


def file_limit(processes: Processes, wanted: int, hard: int | None) -> FileLimit:
    """Check that processes on a host can have `wanted` open files; above the hard limit, by running `true`."""
    if hard is None or wanted <= hard:
        return FileLimit(wanted)
    try:
        processes.run(("true",), nofile=wanted)
    except HostError as error:
        return FileLimit(wanted, (error.why or error.what).removeprefix(f"{wanted} open files: "))
    return FileLimit(wanted)


def apply(host: Host, planned: TuningPlan, scope: ChangeScope = "run") -> TuningResult:
    """Apply a plan on its host and read every setting again. Raises HostError."""
    if not planned.values:
        return TuningResult({}, ())
    sudo = SUDO_SYSCTL if planned.commands else None
    logger.info("%s: writing %d kernel settings", host.name, len(planned.values))
    written = host.call(Sysctls.write, planned.values, sudo, scope)
    for key, outcome in written.items():
        logger.info("%s: %s = %s: %s", host.name, key, planned.values[key], outcome.outcome)
    sentences = [
        f"{planned.host}: {key} = {planned.values[key]} not applied: {_reason(outcome)}"
        for key, outcome in written.items()
        if outcome.outcome not in ("applied", "already")
    ]
    return TuningResult(written, tuple(sentences))


def _status(
    sysctl: Sysctl, value: str, spec: HostSpec, *, root: bool, can_sudo: bool | None, shared: bool
) -> SettingStatus:
    status: SettingStatus = "apply" if sysctl.writable or can_sudo else "no-sudo"
    if sysctl.state == "present" and (sysctl.value or "").split() == value.split():
        status = "already"
    elif shared:  # also where the machine has the setting, but not the host
        status = "not-isolated"
    elif sysctl.state != "present":
        status = sysctl.state
    elif not sysctl.writable and root:
        status = "read-only"
    elif not sysctl.writable and not spec.sudo:
        status = "needs-root"
    return status


def _reason(outcome: SysctlOutcome) -> str:
    if outcome.outcome == "differs":
        return f"the kernel stored {outcome.value} instead"
    return outcome.why or outcome.outcome
