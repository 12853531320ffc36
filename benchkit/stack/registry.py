"""The backends there are. Adding one: its file, and its line here."""

from __future__ import annotations

from collections.abc import Mapping

from benchkit.stack.backend import Backend
from benchkit.stack.nethttp import NETHTTP
from benchkit.stack.nginx import NGINX

BACKENDS: Mapping[str, Backend] = {backend.name: backend for backend in (NETHTTP, NGINX)}
