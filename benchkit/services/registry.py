"""The backends there are. Adding one: its file, and its line here."""

from __future__ import annotations

from collections.abc import Mapping

from benchkit.services.backend import Backend
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

BACKENDS: Mapping[str, Backend] = {
    backend.name: backend
    for backend in (NETHTTP, FCGI, GOSTRING, FILESERVER, FASTHTTP, GNET, NETPOLL, HERTZ, NODE, NGINX, *MODULE_BACKENDS)
}
