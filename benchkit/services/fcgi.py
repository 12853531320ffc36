"""Go's net/http/fcgi behind an nginx: the handler of `nethttp`, over TCP or a unix socket."""

from __future__ import annotations

from benchkit.services.go_server import GoServer, GoServerOptions

FCGI = GoServer("fcgi", GoServerOptions, "fastcgi")
