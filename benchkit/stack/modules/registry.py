"""The services of in-house Go modules. Adding one: its file, and its line here."""

from __future__ import annotations

from benchkit.stack.backend import Backend
from benchkit.stack.modules.developer import GO_DEVELOPER
from benchkit.stack.modules.git import GIT_SSH
from benchkit.stack.modules.proxy import GOPROXY, GOPROXYIO
from benchkit.stack.modules.site import MODULE_SITE
from benchkit.stack.modules.upstream import MODULE_GUARD, MODULE_UPSTREAM
from benchkit.stack.modules.vanity import VANITY

MODULE_BACKENDS: tuple[Backend, ...] = (
    GIT_SSH,
    VANITY,
    MODULE_UPSTREAM,
    MODULE_GUARD,
    GOPROXYIO,
    GOPROXY,
    MODULE_SITE,
    GO_DEVELOPER,
)
