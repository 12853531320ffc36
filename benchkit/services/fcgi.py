"""Go's net/http/fcgi, for an nginx in front of it: the handler of `nethttp` over TCP or a unix socket."""

from __future__ import annotations

from benchkit.services.go_server import go_backend

FCGI = go_backend("fcgi", protocol="fastcgi")
