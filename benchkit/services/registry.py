"""The registry of backends. Adding one takes its file, and its line here (see README.md in this folder)."""

from __future__ import annotations

from collections.abc import Mapping

from benchkit.registry import Registry
from benchkit.services.backend import AnyBackend, Backend, BackendOptions
from benchkit.services.command import COMMAND
from benchkit.services.compose import COMPOSE, ComposeOptions
from benchkit.services.container import CONTAINER
from benchkit.services.external import EXTERNAL, ExternalOptions
from benchkit.services.go_servers import GO_SERVERS
from benchkit.services.nginx import NGINX
from benchkit.services.node import NODE
from benchkit.services.postgres import POSTGRES

_BACKENDS: tuple[AnyBackend, ...] = (*GO_SERVERS, NODE, NGINX, POSTGRES, COMMAND, CONTAINER)

BACKENDS: Registry[AnyBackend] = Registry(
    "benchkit.backends", {backend.name: backend for backend in _BACKENDS}, Backend, lambda backend: backend.name
)
"""All backends, including those of plugins, by their names in scenarios."""


def service_options() -> Mapping[str, type[BackendOptions]]:
    """Return the options of all values of `backend`: of backends, external servers, and Compose files."""
    return {
        **{name: backend.options for name, backend in BACKENDS.items()},
        EXTERNAL: ExternalOptions,
        COMPOSE: ComposeOptions,
    }
