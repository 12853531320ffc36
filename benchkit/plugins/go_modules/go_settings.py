"""Settings of a host's go command, as `go env -w` makes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from benchkit.hosts.host import Host
from benchkit.services.service import HostSettings

RECORD_KIND = "go-settings"
"""Kind of the record that the agent writes before it changes them, and restores them from."""


@dataclass(frozen=True)
class GoSettings(HostSettings):
    """Values for `go env -w` on a host whose login user pulls modules."""

    go: str
    """Path of the host's go command."""
    values: Mapping[str, str]

    @property
    def subject(self) -> str:
        """The thing that is set, for messages."""
        return "the go command"

    def apply(self, host: Host) -> None:
        """Write the settings; the agent restores the former ones when the host is released. Raises HostError."""
        host.changes.set_go_env(self.go, self.values)

    def is_applied(self, host: Host) -> bool:
        """Return True if another connection has changed the host's go settings and not restored them yet."""
        return any((record.kind, record.state) == (RECORD_KIND, "other") for record in host.changes.records())
