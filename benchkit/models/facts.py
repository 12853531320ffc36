"""What a host is: the facts that plans are made of, that runs record, and by which runs are told apart."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from benchkit.models.base import Frozen


class Interface(Frozen):
    """A network interface."""

    name: str
    mtu: int | None = None
    speed_bps: float | None = Field(default=None, description="as its driver says; virtual ones make it up")
    virtual: bool | None = Field(default=None, description="whether no device stands behind it; None: not known")
    up: bool | None = None
    addresses: tuple[str, ...] = ()


class ProgramFact(Frozen):
    """An executable that the host has."""

    path: str
    version: str | None = Field(default=None, description="as it says itself; None where it does not")
    said: str | None = Field(default=None, description="in full, where it is its words that tell what it is")


class HostFacts(Frozen):
    """One host, as its agent found it."""

    hostname: str
    os: str = Field(description="`linux`; the name that Go uses")
    distribution: str | None = None
    kernel: str
    machine: str = Field(description="as the kernel calls the architecture: x86_64, aarch64, …")
    goarch: str | None = Field(default=None, description="the same as Go calls it; None where Go has no such target")
    glibc: str | None = None
    python: str = Field(description="what the agent runs on")
    psutil: str | None = None
    psutil_source: str | None = Field(default=None, description="host: it had psutil; sent: benchkit brought it")
    cpus: tuple[int, ...] = Field(description="the CPUs that the login may use (affinity)")
    cpu_model: str | None = None
    cores: int | None = Field(default=None, description="physical ones of the whole machine")
    memory_bytes: int | None = None
    user: str
    uid: int
    can_sudo: bool | None = Field(
        default=None, description="`sudo -n` works; None: not tried, the inventory has no sudo"
    )
    cpu_groups: bool | None = Field(
        default=None, description="whether the login may make control groups with a CPU quota; None: not asked"
    )
    nofile_soft: int | None = Field(default=None, description="open files; None: no limit")
    nofile_hard: int | None = None
    package_manager: str | None = Field(default=None, description="apt, dnf, apk, pacman or zypper")
    programs: Mapping[str, ProgramFact] = Field(default_factory=dict, description="of those that benchkit may use")
    boot_id: str | None = None
    clock_offset_s: float = Field(description="the host's wall clock less the controller's")
    clock_uncertainty_s: float
    interfaces: tuple[Interface, ...] = ()
    sysctls: Mapping[str, str | None] = Field(default_factory=dict, description="None: the host has no such setting")
    governor: str | None = Field(default=None, description="how CPU frequency is governed; None: it is not")
    virtualisation: str | None = Field(default=None, description="what the host runs in, as far as it shows")
    workdir: str

    @property
    def root(self) -> bool:
        """Whether the login is root's."""
        return self.uid == 0
