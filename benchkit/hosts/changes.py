"""What benchkit changes on a host beside its own files: sysctls, with records of what they were; and putting it back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from benchkit.hosts.link import Link

TIME_S = 60.0
"""For all writes of one request; sudo may have to be asked for each."""


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

    kind: Literal["sysctl", "process", "damaged"]
    state: Literal["mine", "other", "abandoned"]
    """Of this connection, of another that lives, or of one that is gone."""
    since: datetime | None
    text: str
    """What was changed, for people."""


@dataclass(frozen=True)
class Undone:
    """What became of a record that was to be undone."""

    text: str
    failures: tuple[str, ...]
    """Empty where it is undone, verified by reading back; else why not. The record is kept then."""


class Changes:
    """The changes made to one host; safe for many threads."""

    def __init__(self, link: Link) -> None:
        """Speak to the host's agent over its link."""
        self._link = link

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

    def records(self) -> tuple[Record, ...]:
        """What is to be undone on the host, by whomever."""
        reply = self._link.request("records", {}).fields
        strays = tuple(
            Record("process", "abandoned", None, f"process {stray['pid']} ({stray['name']})")
            for stray in reply["strays"]
        )
        return (
            *(
                Record(each["kind"], each["state"], datetime.fromtimestamp(each["at"], UTC), _text(each))
                for each in reply["records"]
            ),
            *strays,
        )

    def restore(self, *, own: bool = False) -> tuple[Undone, ...]:
        """Put back what was changed over this link and, unless `own`, undo all that abandoned ones left.

        Raises HostError.
        """
        reply = self._link.request("restore", {"own": own}, time_s=TIME_S)
        return tuple(Undone(_text(each["record"]), tuple(each["failures"])) for each in reply.fields["undone"])


def _text(record: Mapping[str, Any]) -> str:
    match record["kind"]:
        case "sysctl":
            return ", ".join(f"{key} (was {value})" for key, value in record["former"].items())
        case "process":
            return f"process {record['pid']} ({record['program']})"
        case _:
            return "a record that cannot be read"
