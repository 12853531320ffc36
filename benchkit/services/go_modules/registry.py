"""The backends for in-house Go modules. Adding one takes its file, and its line here."""

from __future__ import annotations

from benchkit.services.backend import AnyBackend
from benchkit.services.go_modules.developer import GO_DEVELOPER
from benchkit.services.go_modules.git_server import GIT_SSH
from benchkit.services.go_modules.proxy import ATHENS, GOPROXY, GOPROXYIO
from benchkit.services.go_modules.reverse_proxy import MODULE_SITE
from benchkit.services.go_modules.upstream import MODULE_GUARD, MODULE_UPSTREAM
from benchkit.services.go_modules.vanity import VANITY

MODULE_BACKENDS: tuple[AnyBackend, ...] = (
    GIT_SSH,
    VANITY,
    MODULE_UPSTREAM,
    MODULE_GUARD,
    GOPROXYIO,
    GOPROXY,
    ATHENS,
    MODULE_SITE,
    GO_DEVELOPER,
)
