"""Facts of a host: plans are based on them, runs record them, and comparisons of runs check them."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import ConfigDict, Field

from benchkit.models.base import Frozen


class Interface(Frozen):
    """A network interface."""

    name: str
    mtu: int | None = None
    speed_bps: float | None = Field(
        default=None, description="as stated by its driver; virtual interfaces state arbitrary values"
    )
    virtual: bool | None = Field(default=None, description="true: no hardware device; None: unknown")
    up: bool | None = None
    addresses: tuple[str, ...] = ()


class ProgramFact(Frozen):
    """An executable on the host."""

    model_config = ConfigDict(populate_by_name=True, serialize_by_alias=True)  # stored runs have the name `said`

    path: str
    version: str | None = Field(default=None, description="as it states itself; None: unknown")
    version_output: str | None = Field(
        default=None, alias="said", description="its whole output, if that identifies the program"
    )


class HostFacts(Frozen):
    """One host, as its agent reports it."""

    hostname: str
    os: str = Field(description="`linux`; the name that Go uses")
    distribution: str | None = None
    kernel: str
    machine: str = Field(description="architecture as the kernel names it: x86_64, aarch64, …")
    goarch: str | None = Field(default=None, description="architecture as Go names it; None: Go has no such target")
    glibc: str | None = None
    python: str = Field(description="version that the agent runs on")
    psutil: str | None = Field(default=None, description="version used there; in runs of older versions only")
    psutil_source: str | None = Field(default=None, description="host: psutil of the host; sent: benchkit sent it")
    cpus: tuple[int, ...] = Field(description="CPUs that the login may use (affinity)")
    cpu_model: str | None = None
    cores: int | None = Field(default=None, description="physical cores of the whole machine")
    memory_bytes: int | None = None
    user: str
    uid: int
    can_sudo: bool | None = Field(
        default=None, description="`sudo -n` works; None: not tried, the inventory has no sudo"
    )
    cpu_groups: bool | None = Field(
        default=None, description="true: the login may create control groups with a CPU quota; None: not checked"
    )
    nofile_soft: int | None = Field(default=None, description="open files; None: no limit")
    nofile_hard: int | None = None
    package_manager: str | None = Field(default=None, description="apt, dnf, apk, pacman or zypper")
    programs: Mapping[str, ProgramFact] = Field(default_factory=dict, description="programs that benchkit may use")
    boot_id: str | None = None
    clock_offset_s: float = Field(description="the host's wall clock minus the controller's")
    clock_uncertainty_s: float
    interfaces: tuple[Interface, ...] = ()
    sysctls: Mapping[str, str | None] = Field(
        default_factory=dict, description="by name; None: the host has no such setting"
    )
    governor: str | None = Field(default=None, description="CPU frequency governor; None: there is none")
    virtualisation: str | None = Field(
        default=None, description="hypervisor or container of the host, if it can be detected"
    )
    workdir: str

    @property
    def root(self) -> bool:
        """True if the login is root's."""
        return self.uid == 0
