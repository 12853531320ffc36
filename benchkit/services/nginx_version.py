"""Which nginx a binary is, by what its `-v` prints, and what follows from that for its configuration. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Reuseport = Literal["listen", "events"]

_NAMED = re.compile(r"version:\s*(?P<product>[A-Za-z]+)/(?P<version>[0-9]+(?:\.[0-9]+)*)")
_CORE = re.compile(r"\bnginx/(?P<version>[0-9]+(?:\.[0-9]+)*)")

TENGINE_LIKE_NGINX = (2, 3, 0)
"""From this version on Tengine has no `reuse_port` of its own any more, and nginx's `listen … reuseport` instead (its
change log)."""

LISTEN_REUSEPORT = (1, 9, 1)
"""nginx change log, 1.9.1."""

ERROR_LOG_OPTION = (1, 19, 5)
"""From this version on `-e FILE` names the log that is open before the configuration is read (nginx change log, 1.19.5);
without it nginx also opens the one of the host's own installation."""

ANGIE_CORE = (1, 23, 4)
"""The nginx that Angie 1.0.0 began with; its `-v` does not say which one it has now."""


@dataclass(frozen=True)
class Flavour:
    """An nginx, or one of those that were made from it."""

    product: str
    """As it calls itself: nginx, Tengine, openresty, freenginx, Angie."""
    version: tuple[int, ...]
    core: tuple[int, ...]
    """The version of nginx that it is made from; empty where it does not say."""

    def __str__(self) -> str:
        """`Tengine 2.2.3 (nginx 1.8.1)`."""
        name = f"{self.product} {_written(self.version)}"
        return name if self.core in ((), self.version) else f"{name} (nginx {_written(self.core)})"

    @property
    def reuseport(self) -> Reuseport | None:
        """Where it is told that each worker has a listening socket of its own; None where it cannot be."""
        if self.product == "Tengine" and self.version < TENGINE_LIKE_NGINX:
            return "events"
        return "listen" if self.product == "Tengine" or self.core >= LISTEN_REUSEPORT else None

    @property
    def error_log_option(self) -> bool:
        """Whether it knows `-e`."""
        return self.core >= ERROR_LOG_OPTION


def flavour(said: str | None) -> Flavour | None:
    """The nginx that prints this for `-v`; None for what is none.

    Tengine says its core on the same line (2.2) or on the next (2.3); OpenResty's first three numbers are its core's;
    freenginx counts on from nginx.
    """
    named = _NAMED.search(said or "")
    if said is None or named is None:
        return None
    product, version = named["product"], _numbers(named["version"])
    core = _CORE.search(said)
    match product.lower():
        case "nginx" | "freenginx":
            return Flavour(product, version, version)
        case "openresty":
            return Flavour(product, version, version[:3])
        case "angie":
            return Flavour(product, version, _numbers(core["version"]) if core else ANGIE_CORE)
        case "tengine":
            return Flavour("Tengine", version, _numbers(core["version"]) if core else ())
    return Flavour(product, version, _numbers(core["version"])) if core else None


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split("."))


def _written(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
