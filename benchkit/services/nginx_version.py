"""The product and version of an nginx binary, from the output of `nginx -v`, and the options that it supports."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Reuseport = Literal["listen", "events"]
Http2 = Literal["listen", "directive"]

_PRODUCT = re.compile(r"version:\s*(?P<product>[A-Za-z]+)/(?P<version>[0-9]+(?:\.[0-9]+)*)")
_CORE = re.compile(r"\bnginx/(?P<version>[0-9]+(?:\.[0-9]+)*)")

TENGINE_LISTEN_REUSEPORT = (2, 3, 0)
"""First Tengine with nginx's `listen … reuseport`, which replaced its own `reuse_port` (Tengine's change log)."""

LISTEN_REUSEPORT = (1, 9, 1)
"""First nginx with `listen … reuseport` (nginx change log, 1.9.1)."""

ERROR_LOG_OPTION = (1, 19, 5)
"""First nginx with `-e FILE`, the log used until the configuration is read (nginx change log, 1.19.5). Without the
option nginx also opens the log of the host's own installation."""

HTTP2_DIRECTIVE = (1, 25, 1)
"""First nginx with the directive `http2 on`, which replaced `listen … http2` (nginx change log, 1.25.1)."""

CIPHERSUITES_COMMAND = (1, 19, 4)
"""First nginx with `ssl_conf_command`, which sets the suites of TLS 1.3 (nginx change log, 1.19.4)."""

ANGIE_CORE = (1, 23, 4)
"""The nginx that Angie 1.0.0 is based on; `-v` of Angie does not print the present one."""


@dataclass(frozen=True)
class NginxVersion:
    """Version of an nginx or of a fork."""

    product: str
    """Name that the program prints: nginx, Tengine, openresty, freenginx, Angie."""
    version: tuple[int, ...]
    core: tuple[int, ...]
    """The version of nginx that it is based on; empty where it is unknown."""

    def __str__(self) -> str:
        """Return a text such as `Tengine 2.2.3 (nginx 1.8.1)`."""
        name = f"{self.product} {_dotted(self.version)}"
        return name if self.core in ((), self.version) else f"{name} (nginx {_dotted(self.core)})"

    @property
    def reuseport(self) -> Reuseport | None:
        """Block of the configuration that gives each worker its own listening socket; None if that is unsupported."""
        if self.product == "Tengine" and self.version < TENGINE_LISTEN_REUSEPORT:
            return "events"
        return "listen" if self.product == "Tengine" or self.core >= LISTEN_REUSEPORT else None

    @property
    def http2(self) -> Http2:
        """Form in which its configuration turns HTTP/2 on."""
        return "directive" if self.core >= HTTP2_DIRECTIVE else "listen"

    @property
    def has_ciphersuites(self) -> bool:
        """True if its configuration can name the cipher suites of TLS 1.3."""
        return self.core >= CIPHERSUITES_COMMAND

    @property
    def has_error_log_option(self) -> bool:
        """True if it has the option `-e`."""
        return self.core >= ERROR_LOG_OPTION


def parse_version_output(text: str | None) -> NginxVersion | None:
    """Return the version of the nginx whose `-v` prints this text; None where the program is not an nginx.

    Tengine prints the version of its core on the same line (2.2) or on the next (2.3); the first three numbers of
    OpenResty are those of its core; freenginx continues the numbers of nginx.
    """
    match = _PRODUCT.search(text or "")
    if text is None or match is None:
        return None
    product, version = match["product"], _numbers(match["version"])
    core = _CORE.search(text)
    match product.lower():
        case "nginx" | "freenginx":
            return NginxVersion(product, version, version)
        case "openresty":
            return NginxVersion(product, version, version[:3])
        case "angie":
            return NginxVersion(product, version, _numbers(core["version"]) if core else ANGIE_CORE)
        case "tengine":
            return NginxVersion("Tengine", version, _numbers(core["version"]) if core else ())
    return NginxVersion(product, version, _numbers(core["version"])) if core else None


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split("."))


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
