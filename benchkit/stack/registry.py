"""The backends there are. Adding one: its file, and its line here."""

from __future__ import annotations

from collections.abc import Mapping

from benchkit.stack.backend import Backend
from benchkit.stack.fasthttp import FASTHTTP
from benchkit.stack.fcgi import FCGI
from benchkit.stack.fileserver import FILESERVER
from benchkit.stack.gnet import GNET
from benchkit.stack.gostring import GOSTRING
from benchkit.stack.hertz import HERTZ
from benchkit.stack.modules.registry import MODULE_BACKENDS
from benchkit.stack.nethttp import NETHTTP
from benchkit.stack.netpoll import NETPOLL
from benchkit.stack.nginx import NGINX
from benchkit.stack.node import NODE

BACKENDS: Mapping[str, Backend] = {
    backend.name: backend
    for backend in (NETHTTP, FCGI, GOSTRING, FILESERVER, FASTHTTP, GNET, NETPOLL, HERTZ, NODE, NGINX, *MODULE_BACKENDS)
}
