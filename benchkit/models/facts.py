"""Facts of a host: plans are based on them, runs record them, and comparisons of runs check them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Self

from pydantic import ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

from benchkit.models.base import Stored


class Interface(Stored):
    """A network interface."""

    model_config = ConfigDict(extra="allow")  # runs of other versions may have recorded more

    name: str
    mtu: int | None = None
    speed_bps: float | None = Field(
        default=None, description="as its driver states it; meaningless for a virtual interface"
    )
    virtual: bool | None = Field(default=None, description="true: no hardware device; None: unknown")
    up: bool | None = None
    gso: bool | None = Field(default=None, description="generic segmentation offload")
    gro: bool | None = Field(default=None, description="generic receive offload")
    addresses: tuple[str, ...] = ()


class ProgramFact(Stored):
    """An executable on the host."""

    model_config = ConfigDict(
        populate_by_name=True, serialize_by_alias=True, extra="allow"
    )  # stored runs have the name `said`

    path: str
    version: str | None = Field(default=None, description="as it states itself; None: unknown")
    version_output: str | None = Field(default=None, alias="said", description="its output, if that identifies it")


class EngineFact(Stored):
    """A container engine on the host."""

    model_config = ConfigDict(extra="allow")

    version: str | None = None
    runtime: str | None = Field(default=None, description="OCI runtime that starts its containers, with its version")
    storage_driver: str | None = Field(default=None, description="overlay, vfs, …")
    cgroup_manager: str | None = Field(default=None, description="cgroupfs or systemd")
    cgroup_version: str | None = None
    rootless: bool = False


class RecordedFacts(Stored):
    """Facts of a host as a run records them: all of them at its start, later those that may have changed.

    Only the facts that were read are stored. A stored fact that this version does not know stays as it is.
    """

    model_config = ConfigDict(extra="allow")

    hostname: str | None = None
    os: str | None = Field(default=None, description="`linux`; the name that Go uses")
    distribution: str | None = None
    kernel: str | None = None
    machine: str | None = Field(default=None, description="architecture as the kernel names it: x86_64, aarch64, …")
    goarch: str | None = Field(default=None, description="architecture as Go names it; None: Go has no such target")
    glibc: str | None = None
    python: str | None = Field(default=None, description="version that the agent runs on")
    cpus: tuple[int, ...] = Field(default=(), description="CPUs that the login may use (affinity)")
    cpu_model: str | None = None
    cores: int | None = Field(default=None, description="physical cores of the whole machine")
    memory_bytes: int | None = None
    user: str | None = None
    uid: int | None = None
    service_account: tuple[str, str] | None = Field(default=None, description="user and group of servers under root")
    can_sudo: bool | None = Field(default=None, description="`sudo -n` works; None: the inventory has no sudo")
    cpu_groups: bool | None = Field(default=None, description="the login may create control groups with a CPU quota")
    nofile_soft: int | None = Field(default=None, description="open files; None: no limit")
    nofile_hard: int | None = None
    package_manager: str | None = Field(default=None, description="apt; None: another one")
    programs: Mapping[str, ProgramFact] = Field(default_factory=dict, description="programs that benchkit may use")
    engines: Mapping[str, EngineFact] = Field(default_factory=dict, description="container engines of the run, by name")
    boot_id: str | None = None
    clock_offset_s: float | None = Field(default=None, description="the host's wall clock minus the controller's")
    clock_uncertainty_s: float | None = None
    interfaces: tuple[Interface, ...] = ()
    sysctls: Mapping[str, str | None] = Field(default_factory=dict, description="by name; None: no such setting")
    governor: str | None = Field(default=None, description="CPU frequency governor; None: there is none")
    shared_cores: tuple[tuple[int, ...], ...] = Field(default=(), description="CPUs of each core with SMT")
    turbo: bool | None = Field(default=None, description="cores may run above their base clock rate; None: unknown")
    virtualisation: str | None = Field(default=None, description="hypervisor or container of the host")
    workdir: str | None = None
    controller_address: str | None = Field(default=None, description="address of the controller's SSH connection")
    link_bps: float | None = Field(default=None, description="capacity of its link, where the inventory states it")
    executables: Mapping[str, str | None] = Field(default_factory=dict, description="size and mtime of programs")
    tuning: Mapping[str, str] = Field(default_factory=dict, description="outcome of each setting that the run applied")
    nofile: int | None = Field(default=None, description="limit of open files that tuning sets for its processes")

    def updated(self, later: RecordedFacts) -> RecordedFacts:
        """Return these facts with later ones in their places, kernel settings one by one."""
        read = {name: getattr(later, name) for name in later.model_fields_set}
        return self.model_copy(update={**read, "sysctls": {**self.sysctls, **later.sysctls}})

    def with_programs(self, names: Collection[str]) -> Self:
        """Return these facts with the programs of these names only."""
        return self.model_copy(
            update={"programs": {name: fact for name, fact in self.programs.items() if name in names}}
        )

    @model_serializer(mode="wrap")
    def _without_unread(self, serialize: SerializerFunctionWrapHandler) -> dict[str, object]:
        return {name: value for name, value in serialize(self).items() if name in self.model_fields_set}


class HostFacts(RecordedFacts):
    """One connected host, as its agent reports it: planning needs some facts for certain."""

    model_config = ConfigDict(extra="forbid")

    hostname: str
    os: str
    kernel: str
    machine: str
    python: str
    cpus: tuple[int, ...]
    user: str
    uid: int
    clock_offset_s: float
    clock_uncertainty_s: float
    workdir: str

    @property
    def root(self) -> bool:
        """True if the login is root's."""
        return self.uid == 0
