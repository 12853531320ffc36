"""What benchkit changes on a host, with records of what was before; putting it back; and who holds the host meanwhile."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from benchkit.errors import HostError
from benchkit.hosts.agent_link import Link

TIME_S = 60.0
"""For all writes of one request; sudo may have to be asked for each."""
HOLD_S = 45.0
"""A host that is being put back is waited for, and a guardian that has to go is given its time."""


@dataclass(frozen=True)
class Sysctl:
    """A kernel setting as a host has it."""

    state: Literal["present", "absent", "unreadable"]
    value: str | None
    writable: bool
    """Whether the login user may write it."""


@dataclass(frozen=True)
class Written:
    """What became of a setting that was to be written."""

    outcome: Literal["applied", "already", "absent", "unreadable", "read-only", "refused", "differs"]
    """"differs": the kernel made another value of it; "refused": by the kernel or by sudo, `why` says how."""
    former: str | None
    value: str | None
    """Read back."""
    why: str | None


@dataclass(frozen=True)
class Record:
    """Something on a host that has to be undone."""

    kind: str
    """sysctl, process, folder, …; "damaged" where it cannot be read."""
    state: Literal["mine", "other", "abandoned"]
    """Of this connection, of another that lives, or of one that is gone."""
    since: datetime | None
    text: str
    """What was changed, for people."""


@dataclass(frozen=True)
class RestoredChange:
    """What became of a record that was to be undone."""

    text: str
    failures: tuple[str, ...]
    """Empty where it is undone, verified by reading back; else why not. The record is kept then."""
    how: Literal["undone", "rebooted", "kept", "failed"] = "undone"
    """"rebooted": a reboot of the host had undone it already; "kept": it belongs to a run that is going on."""


@dataclass(frozen=True)
class Report:
    """What was put back behind a connection that ended without a goodbye, as written down on the host."""

    name: str
    at: datetime
    reason: str
    run: str | None
    """The run that held the host."""
    undone: tuple[str, ...]
    """Processes ended, settings put back, folders removed; for people."""
    failures: tuple[str, ...]

    def __str__(self) -> str:
        """One line, for people."""
        whose = f"run {self.run}: " if self.run else ""
        done = f"; undone: {', '.join(self.undone)}" if self.undone else ""
        failed = f"; failed: {'; '.join(self.failures)}" if self.failures else ""
        return f"{self.at:%Y-%m-%d %H:%M:%S} UTC, {whose}{self.reason}{done}{failed}"


@dataclass(frozen=True)
class Holder:
    """Who holds a host."""

    pid: int
    state: Literal["running", "ending", "kept", "silent"]
    """"ending": what it did is about to be put back; "kept": a stack that stays up without a controller; "silent": it does
    not answer."""
    run: str | None = None
    who: str | None = None
    since: datetime | None = None
    lease_s: float | None = None
    heard_s: float | None = None
    """How long ago its controller was heard."""

    def __str__(self) -> str:
        """For people."""
        if self.run is None or self.since is None:
            return f"process {self.pid}, which does not answer"
        return f"{self.run} of {self.who} since {self.since:%Y-%m-%d %H:%M:%S} UTC"


@dataclass(frozen=True)
class HoldResult:
    """How a host came to be held."""

    shared_with: str | None
    """The host of the same run that is the same machine, and holds it; None: it is held by this connection."""
    waited: bool
    """Whether something was put back first: what was asked of the host before is not true any more."""


@dataclass(frozen=True)
class Leftovers:
    """What an earlier run has left on a host."""

    reports: tuple[Report, ...] = ()
    """What was put back behind it."""
    undone: tuple[RestoredChange, ...] = ()
    """What was put back now, for nobody had."""


@dataclass(frozen=True)
class State:
    """What benchkit finds of itself on a host."""

    records: tuple[Record, ...]
    reports: tuple[Report, ...]
    holder: Holder | None


class Changes:
    """The changes made to one host; safe for many threads."""

    def __init__(self, link: Link, host: str) -> None:
        """Speak to the host's agent over its link."""
        self._link = link
        self._host = host

    def read(self, keys: Iterable[str]) -> Mapping[str, Sysctl]:
        """Sysctls as they are."""
        found = self._link.request("sysctl_read", {"keys": list(keys)}).fields["sysctls"]
        return {key: Sysctl(**sysctl) for key, sysctl in found.items()}

    def write(self, values: Mapping[str, str], *, sudo: Sequence[str] | None = None) -> Mapping[str, Written]:
        """Set sysctls in this order and read them back; what they were is on the host's disk before the first changes.

        The agent puts them back at its end, however that comes; `restore` does so before. What
        the login user may not write is refused, or goes through the command `sudo` with `key=value` after it. Raises
        HostError.
        """
        reply = self._link.request("sysctl_write", {"values": dict(values), "sudo": sudo and list(sudo)}, time_s=TIME_S)
        return {key: Written(**outcome) for key, outcome in reply.fields["outcomes"].items()}

    def state(self) -> State:
        """What is to be undone on the host, by whomever; what was put back there; who holds it. Raises HostError."""
        reply = self._link.request("records", {}).fields
        strays = tuple(
            Record("process", "abandoned", None, f"process {stray['pid']} ({stray['name']})")
            for stray in reply["strays"]
        )
        return State(
            (
                *(
                    Record(each["kind"], each["state"], datetime.fromtimestamp(each["at"], UTC), _text(each))
                    for each in reply["records"]
                ),
                *strays,
            ),
            tuple(_report(each) for each in reply["reports"]),
            _holder(reply["holder"]),
        )

    def group(self, name: str, cpus: float) -> None:
        """Have a control group of that name, whose processes get so many CPUs' worth of time together.

        It goes with the agent, however that ends, or with `restore`. Raises HostError where there can be none.
        """
        self._link.request("group", {"name": name, "cpus": cpus})

    def go_settings(self, go: str, values: Mapping[str, str]) -> None:
        """Have the login's own go command keep these settings (`go env -w`); they go as what `write` sets. Raises HostError."""
        self._link.request("go_settings", {"go": go, "values": dict(values)}, time_s=TIME_S)

    def records(self) -> tuple[Record, ...]:
        """What is to be undone on the host, by whomever. Raises HostError."""
        return self.state().records

    def forget(self, report: Report) -> None:
        """Take away a report that was read. Raises HostError."""
        self._link.request("forget_report", {"name": report.name})

    def hold(self, run: str, host: str, who: str, *, take_over: bool = False) -> HoldResult:
        """Hold the host for a run until the end of this connection.

        A host that another run holds is refused; with `take_over` only while that run's lease has not lapsed. What is
        being put back is waited for. Raises RefusedError (`held`) naming who holds it.
        """
        args = {"run": run, "host": host, "who": who, "take_over": take_over}
        return HoldResult(**self._link.request("hold", args, time_s=HOLD_S).fields)

    def clear(self) -> Leftovers:
        """Put back what abandoned runs have left, and read what was put back behind them.

        Raises HostError where something cannot be put back.
        """
        state = self.state()
        undone: tuple[RestoredChange, ...] = ()
        if any(record.state == "abandoned" for record in state.records):
            undone = tuple(each for each in self.restore() if each.how != "kept")
        if failures := [failure for each in undone for failure in each.failures]:
            raise HostError(
                "an earlier run has left what cannot be put back",
                where=self._host,
                why="; ".join(failures),
                hint="`benchkit hosts restore` tries again; the record is kept until it succeeds",
            )
        for report in state.reports:
            self.forget(report)
        return Leftovers(state.reports, undone)

    def keep(self, lease_s: float | None = None) -> None:
        """Have what was started and changed stay after this connection, for so long or (None) until `release`."""
        self._link.request("keep", {"lease_s": lease_s})

    def release(self) -> Holder | None:
        """End who holds the host, if that is a kept stack or a run whose lease has lapsed; all is put back then.

        Raises RefusedError (`held`) for a run that is alive, and where the holder cannot be ended.
        """
        return _holder(self._link.request("release", {}, time_s=HOLD_S).fields["ended"])

    def restore(self, *, own: bool = False) -> tuple[RestoredChange, ...]:
        """Put back what was changed over this link and, unless `own`, undo all that abandoned ones left.

        Raises HostError.
        """
        reply = self._link.request("restore", {"own": own}, time_s=TIME_S)
        return tuple(
            RestoredChange(_text(each["record"]), tuple(each["failures"]), each["how"])
            for each in reply.fields["undone"]
        )


def _text(record: Mapping[str, Any]) -> str:  # noqa: PLR0911 - one for each kind
    match record["kind"]:
        case "sysctl":
            return ", ".join(f"{key} (was {value})" for key, value in record["former"].items())
        case "process":
            return (
                f"process {record['pid']} ({record['program']})" if "pid" in record else f"process {record['program']}"
            )
        case "folder":
            return f"folder {record['path']}"
        case "group":
            return f"control group {record['path']}"
        case "go-settings":
            was = (f"{name} (was {value})" if value is not None else name for name, value in record["was"].items())
            return f"in {record['file']}: {', '.join(was)}"
        case "perf-maps":
            return f"maps for perf of the processes {', '.join(map(str, record['pids']))}"
        case "damaged":
            return "a record that cannot be read"
        case kind:
            return f"a record of the kind {kind}"


def _report(told: Mapping[str, Any]) -> Report:
    undone = [*(f"process {name}" for name in told["ended"]), *(_text(each["record"]) for each in told["undone"])]
    return Report(
        name=told["name"],
        at=datetime.fromtimestamp(told["at"], UTC),
        reason=told["reason"],
        run=told["holder"].get("run"),
        undone=tuple(dict.fromkeys(undone)),
        failures=tuple(told["failures"]),
    )


def _holder(told: Mapping[str, Any] | None) -> Holder | None:
    if told is None:
        return None
    since = told.get("since")
    return Holder(
        pid=told["pid"],
        state=told["state"],
        run=told.get("run"),
        who=told.get("who"),
        since=None if since is None else datetime.fromtimestamp(since, UTC),
        lease_s=told.get("lease_s"),
        heard_s=told.get("heard_s"),
    )
