"""The registry of backends. Adding one takes its file, and its line here (see README.md in this folder)."""

from __future__ import annotations

from collections.abc import Mapping

from benchkit.services.backend import AnyBackend, BackendOptions
from benchkit.services.command import COMMAND
from benchkit.services.external import EXTERNAL, ExternalOptions
from benchkit.services.fasthttp import FASTHTTP
from benchkit.services.fcgi import FCGI
from benchkit.services.fileserver import FILESERVER
from benchkit.services.gnet import GNET
from benchkit.services.go_modules.registry import MODULE_BACKENDS
from benchkit.services.gostring import GOSTRING
from benchkit.services.hertz import HERTZ
from benchkit.services.nethttp import NETHTTP
from benchkit.services.netpoll import NETPOLL
from benchkit.services.nginx import NGINX
from benchkit.services.node import NODE

_BACKENDS: tuple[AnyBackend, ...] = (
    NETHTTP,
    FCGI,
    GOSTRING,
    FILESERVER,
    FASTHTTP,
    GNET,
    NETPOLL,
    HERTZ,
    NODE,
    NGINX,
    COMMAND,
    *MODULE_BACKENDS,
)

BACKENDS: Mapping[str, AnyBackend] = {backend.name: backend for backend in _BACKENDS}
"""All backends by the names that scenarios have for them."""

SERVICE_OPTIONS: Mapping[str, type[BackendOptions]] = {
    **{name: backend.options for name, backend in BACKENDS.items()},
    EXTERNAL: ExternalOptions,
}
"""The options of all values of `backend`: those of the backends, and of servers that are there already."""
