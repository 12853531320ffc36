"""The backends there are. Adding one: its file, and its line here."""

from __future__ import annotations

from collections.abc import Mapping

from benchkit.stack.backend import Backend
from benchkit.stack.fasthttp import FASTHTTP
from benchkit.stack.gnet import GNET
from benchkit.stack.hertz import HERTZ
from benchkit.stack.nethttp import NETHTTP
from benchkit.stack.netpoll import NETPOLL
from benchkit.stack.nginx import NGINX

BACKENDS: Mapping[str, Backend] = {
    backend.name: backend for backend in (NETHTTP, FASTHTTP, GNET, NETPOLL, HERTZ, NGINX)
}
