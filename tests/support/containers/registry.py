"""A registry on this machine, from which hosts of a lab pull images: files in the paths of the OCI distribution API."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"


class _Files(SimpleHTTPRequestHandler):
    def guess_type(self, path: object) -> str:
        return MANIFEST if "/manifests/" in str(path) else "application/octet-stream"

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@contextmanager
def registry(folder: Path, address: str) -> Iterator[str]:
    """Serve a folder of published images at a free port of an address; give both as the name of the registry."""
    server = ThreadingHTTPServer((address, 0), partial(_Files, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"{address}:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def publish(image: str, folder: Path, name: str) -> str:
    """Put an image of podman under `NAME:latest` in the folder of a registry; return its id."""
    with tempfile.TemporaryDirectory() as saved:
        save = ["podman", "save", "-q", "--format", "docker-dir", "--compress", "-o", saved, image]
        subprocess.run(save, check=True, capture_output=True)
        manifest = (Path(saved) / "manifest.json").read_bytes()
        parts = json.loads(manifest)
        blobs, manifests = (folder / "v2" / name / kind for kind in ("blobs", "manifests"))
        for made in (blobs, manifests):
            made.mkdir(parents=True, exist_ok=True)
        for digest in (parts["config"]["digest"], *(layer["digest"] for layer in parts["layers"])):
            shutil.copy(Path(saved) / digest.removeprefix("sha256:"), blobs / digest)
    for reference in ("latest", f"sha256:{hashlib.sha256(manifest).hexdigest()}"):
        (manifests / reference).write_bytes(manifest)
    return str(parts["config"]["digest"]).removeprefix("sha256:")
