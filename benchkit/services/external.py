"""A server that others deploy: benchkit sends load to its URL, runs their commands, and watches named processes."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Self

from pydantic import AfterValidator, Field, StringConstraints, WithJsonSchema, model_validator

from benchkit.document import SourceMap
from benchkit.models.base import Frozen, Name
from benchkit.models.protocol import HttpProtocol, TlsOptions, is_tls
from benchkit.services.backend import BackendOptions
from benchkit.services.placement import MAX_PORT, Endpoint
from benchkit.services.templates import CommandLine

EXTERNAL = "external"
"""The value of `backend` in scenarios."""

CONTROLLER = "{controller}"
"""Host of a URL that stands for the address at which the hosts of a run reach the machine that runs benchkit."""

_URL = re.compile(
    r"(?P<scheme>https?)://(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+|\{controller\})(?::(?P<port>[0-9]{1,5}))?/?"
)
PORTS = {"http": 80, "https": 443}
"""Port of a URL that names none (RFC 9110, 4.2)."""


def _validate_url(url: str) -> str:
    if "@" in url:
        raise ValueError(
            "a URL must not contain user and password, as it is stored: give a header `Authorization: {env: NAME}`"
        )
    match = _URL.fullmatch(url)
    if match is None or not 0 < int(match["port"] or PORTS[match["scheme"]]) <= MAX_PORT:
        raise ValueError(
            f"found {url!r}; allowed: http[s]://HOST or http[s]://HOST:PORT; the load has the path (load.path); "
            f"the HOST {CONTROLLER} is this machine"
        )
    if match["host"].startswith("["):
        ipaddress.IPv6Address(match["host"].strip("[]"))
    return url


HERE = "controller"
"""Place of a hook that runs on benchkit's own machine; any other place is the name of a role."""

PlainText = Annotated[str, StringConstraints(strict=True, min_length=1, pattern=r"^[^\x00\n]+$")]


class HookOptions(Frozen):
    """A command by which others deploy the server; levels are in its environment as `BENCHKIT_LEVEL_<FACTOR>`."""

    run: CommandLine = Field(
        description="its command line: a list of arguments, or text that is split as a shell splits it; no shell runs it",
        examples=[["kubectl", "set", "image", "deployment/app", "app=$image"]],
    )
    on: Name = Field(
        default=HERE, description="where it runs: `controller` (here), or a role, on its first host", examples=["sut"]
    )
    within_s: Annotated[float, Field(gt=0, le=3600)] = Field(
        default=300.0, description="time after which it is killed, and has failed"
    )


class WatchOptions(Frozen):
    """Processes of the server on the hosts of a role, by one of control group, systemd unit and command line."""

    role: Name = Field(default="sut", description="role of the hosts that they run on")
    cgroup: PlainText | None = Field(
        default=None, description="path of their control group", examples=["/system.slice/app.service"]
    )
    unit: PlainText | None = Field(default=None, description="name of their systemd unit", examples=["app.service"])
    pattern: PlainText | None = Field(
        default=None, description="regular expression that their command lines contain", examples=["java .*app[.]jar"]
    )

    @model_validator(mode="after")
    def _name_one(self) -> Self:
        if [self.cgroup, self.unit, self.pattern].count(None) != 2:  # noqa: PLR2004 - one of three is given
            raise ValueError("give one of cgroup, unit and pattern")
        return self


class ExternalOptions(BackendOptions):
    """Options of a server that others deploy; every check that needs a host which is not watched is skipped."""

    url: Annotated[
        str, AfterValidator(_validate_url), WithJsonSchema({"type": "string", "pattern": f"^{_URL.pattern}$"})
    ] = Field(
        description="where it listens, without a path; the host {controller} is the machine that runs benchkit",
        examples=["http://192.0.2.10:8080"],
    )
    protocol: HttpProtocol | None = Field(
        default=None,
        description="protocol that it speaks; absent: http1, or https1 where the URL begins with https",
        examples=["h2"],
    )
    tls: TlsOptions = Field(
        default_factory=TlsOptions,
        description="its TLS, as it is set up there, which every trial checks; `certificate` is the file that verifies "
        "it, its own or its authority's",
        examples=[{"certificate": "authority.pem", "version": "1.2"}],
    )

    deploy: HookOptions | None = Field(
        default=None,
        description="command that deploys it, once for each cell in each block; absent: it is deployed already",
        examples=[{"run": ["systemctl", "restart", "app"], "on": "sut", "within_s": 60}],
    )
    ready: HookOptions | None = Field(
        default=None,
        description="command that is repeated until it exits with 0; absent: it is ready when `deploy` has ended",
        examples=[{"run": ["kubectl", "rollout", "status", "deployment/app"]}],
    )
    cleanup: HookOptions | None = Field(
        default=None,
        description="command after each trial, however it ended; on a host, it runs even if the controller is lost",
        examples=[{"run": ["kubectl", "rollout", "undo", "deployment/app"]}],
    )
    watch: tuple[WatchOptions, ...] = Field(
        default=(),
        description="its processes on hosts of the run, whose CPU time and memory are then measured",
        examples=[[{"role": "sut", "unit": "app.service"}]],
    )

    @property
    def effective_protocol(self) -> HttpProtocol:
        """The protocol that it speaks: as given, else HTTP/1.1 by the scheme of its URL."""
        return self.protocol or ("https1" if self.url.startswith("https:") else "http1")

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if is_tls(self.effective_protocol) != self.url.startswith("https:"):
            raise ValueError(
                f"protocol: {self.effective_protocol} does not fit {self.url}: https1, h2 and h3 need https"
            )
        return self


@dataclass(frozen=True)
class ExternalService:
    """A server that others deploy."""

    name: str
    url: str
    protocol: HttpProtocol
    tls: TlsOptions | None
    """Options of its TLS, with the file that verifies it as `certificate`; None without TLS."""
    source: SourceMap = field(compare=False, repr=False)
    """Lines of its options in the scenario, for messages."""
    hooks: Mapping[str, HookOptions] = field(default_factory=dict)
    """Commands by which others deploy it: deploy, ready, cleanup, as far as there are any."""
    watch: tuple[WatchOptions, ...] = ()
    """Its processes that are watched; empty: it is not watched."""
    hosts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Hosts of the roles of its hooks and processes, by role; empty before it is planned."""

    def roles(self) -> Iterator[tuple[tuple[str | int, ...], str]]:
        """Yield the roles that its options name, each with the field."""
        yield from (((name, "on"), hook.on) for name, hook in self.hooks.items() if hook.on != HERE)
        yield from ((("watch", i, "role"), each.role) for i, each in enumerate(self.watch))

    def on_hosts(self, roles: Mapping[str, tuple[str, ...]]) -> ExternalService:
        """Return the same server with the hosts of its roles."""
        return replace(self, hosts={role: roles[role] for _, role in self.roles()})

    def at_controller(self, address: str) -> ExternalService:
        """Return the same server with the address of the machine that runs benchkit in its URL."""
        return replace(self, url=self.url.replace(CONTROLLER, f"[{address}]" if ":" in address else address))

    @property
    def endpoint(self) -> Endpoint:
        """Its socket, as every host reaches it."""
        match = _URL.fullmatch(self.url)
        if match is None:
            raise ValueError(f"{self.url}: not the URL of a validated option")
        host = match["host"].strip("[]")
        port = int(match["port"] or PORTS[match["scheme"]])
        return Endpoint(host, self.protocol, address=host, port=port, tls=self.tls)
