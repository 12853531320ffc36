"""The stacks of `benchkit versus --image` and `--dockerfile`: one container, whose published port gets the load."""

from __future__ import annotations

from collections.abc import Mapping

from benchkit.services.container import CONTAINER
from benchkit.services.images import find_image

SERVICE = "app"
PORT = 8080


def image_stack(name: str, port: int | None, ready_within_s: float | None, *, may_pull: bool) -> dict[str, object]:
    """Return a stack of one image; `port`: the one in the container, None for the only one that it exposes, or 8080.

    With `may_pull` the host pulls an image that this machine does not have. Raises InputError where this machine has no
    engine.
    """
    found = find_image(name)
    ports = () if found is None else found[1].ports
    exposed = ports[0] if len(ports) == 1 else PORT
    pulled = {"pull": "missing"} if found is None and may_pull else {}
    return container_stack({"image": name, **pulled}, port or exposed, ready_within_s)


def container_stack(options: Mapping[str, object], port: int, ready_within_s: float | None) -> dict[str, object]:
    """Return a stack of one container with these options, which listens on this port inside."""
    ready = {} if ready_within_s is None else {"ready": {"within_s": ready_within_s}}
    service = {"backend": CONTAINER.name, "listen": PORT, "port": port, **options, **ready}
    return {"entry": SERVICE, "services": {SERVICE: service}}
