"""Images of containers on the controller: built or found in an engine, and saved as archives that hosts load.

The key of an archive is the image's id, a hash of its configuration and layers (OCI image specification). For an image
to build, it is a hash of the context and the options. An image is built and saved once, as `localhost/benchkit:KEY`.
"""

from __future__ import annotations

import functools
import hashlib
import json
import logging
import re
import shutil
import subprocess
import tempfile
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from benchkit.errors import BenchkitError, InputError
from benchkit.services.builds import BUILD_TIMEOUT_S, LAST_LINES, BuildOutput, Built
from benchkit.services.controller_files import cache_folder, cached, content_sha256
from benchkit.services.git_source import GitState, checked_out
from benchkit.services.go_build import GoSource

EngineName = Literal["podman", "docker"]
ENGINES: tuple[EngineName, ...] = ("podman", "docker")
"""Engines in the order in which `auto` takes them: podman needs no daemon, whose CPU time nobody would count."""

REPOSITORY = "localhost/benchkit"
"""Name of every image that benchkit brings to a host."""
ARCHIVE = "image.tar"
IMAGE_ID = "image.id"
INSPECT_TIMEOUT_S = 30.0
FORMAT = 1
"""Part of each key. Increase it when the way of building changes."""

_PORT = re.compile(r"([0-9]{1,5})(/tcp)?")

progress_logger = logging.getLogger(f"{__name__}.progress")


@dataclass(frozen=True)
class ImageFacts:
    """The facts of an image that decide how and where a container of it runs."""

    image_id: str
    """SHA-256 in hexadecimal digits."""
    goarch: str
    ports: tuple[int, ...]
    """TCP ports that it exposes."""


@dataclass(frozen=True)
class Image(Built):
    """An image of the controller, for a platform."""

    engine: EngineName
    goarch: str

    @property
    @abstractmethod
    def key(self) -> str:
        """Identify its content, in hexadecimal digits."""

    @property
    def reference(self) -> str:
        """Its name on hosts."""
        return f"{REPOSITORY}:{self.key[:24]}"

    @property
    def source(self) -> GitState | None:
        """The version that it is built from; None: the files as they are."""
        return None

    def build(self) -> BuildOutput:
        """Build it and save its archive, once in a process; the hash is the id of the image. Raises BenchkitError."""
        return _saved(self)

    @abstractmethod
    def tag(self) -> str:
        """Give the image the name `reference`, built first where it is to be built; return its id."""


@dataclass(frozen=True)
class LocalImage(Image):
    """An image that an engine of the controller has."""

    name: str
    """As the scenario names it."""
    image_id: str

    @property
    def key(self) -> str:
        """Identify its content."""
        return self.image_id

    def tag(self) -> str:
        """Give it a second name."""
        _run((self.engine, "tag", self.image_id, self.reference), f"cannot name the image {self.name}")
        return self.image_id

    def __str__(self) -> str:
        return f"image {self.name}"


@dataclass(frozen=True)
class BuiltImage(Image):
    """An image that is built from a Containerfile."""

    context: Path
    """Absolute, or with `source` relative to the checkout."""
    file: str
    """Relative to the context."""
    target: str | None = None
    args: tuple[tuple[str, str], ...] = ()
    source: GitState | None = None

    @functools.cached_property
    def key(self) -> str:
        """Identify the content of its context and the options of its build."""
        content = content_sha256(self.context) if self.source is None else [self.source.tree, str(self.context)]
        parts = [FORMAT, self.engine, self.goarch, content, self.file, self.target, self.args]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def tag(self) -> str:
        """Build it with this name."""
        progress_logger.warning("building: %s", self)
        with self._context() as context, tempfile.TemporaryDirectory() as scratch:
            id_file = Path(scratch) / "id"
            file = context / self.file
            if not file.is_file():
                raise BenchkitError(f"there is no {self.file}", where=str(context), hint="name it with build.file")
            argv = [self.engine, "build", "--iidfile", str(id_file), "--tag", self.reference, "--file", str(file)]
            argv += ["--platform", f"linux/{self.goarch}"]
            argv += ["--timestamp", "0"] if self.engine == "podman" else []  # equal content gives an equal id
            argv += ["--target", self.target] if self.target else []
            argv += [word for name, value in self.args for word in ("--build-arg", f"{name}={value}")]
            _run((*argv, str(context)), f"the build of {self} failed", BUILD_TIMEOUT_S)
            return id_file.read_text(encoding="utf-8").strip().removeprefix("sha256:")

    @contextmanager
    def _context(self) -> Iterator[Path]:
        if self.source is None:
            yield self.context
        else:
            with checked_out(self.source) as checkout:
                yield checkout / self.context

    def __str__(self) -> str:
        return f"image of {self.context / self.file}" + (f" at {self.source.ref}" if self.source else "")


@dataclass(frozen=True)
class ServerImage(BuiltImage):
    """An image of one of benchkit's own Go servers: its executable alone. `context` is the server's module."""

    @functools.cached_property
    def key(self) -> str:
        """Identify the executable."""
        program = GoSource(self.context, "linux", self.goarch)
        return hashlib.sha256(json.dumps([FORMAT, self.engine, program.key]).encode()).hexdigest()

    @contextmanager
    def _context(self) -> Iterator[Path]:
        program = GoSource(self.context, "linux", self.goarch).read()
        with tempfile.TemporaryDirectory(prefix="benchkit-image-") as folder:
            shutil.copy(program, Path(folder) / program.name)
            lines = ("FROM scratch", f"COPY {program.name} /{program.name}", f'ENTRYPOINT ["/{program.name}"]')
            (Path(folder) / self.file).write_text("\n".join(lines) + "\n", encoding="utf-8")
            yield Path(folder)

    def __str__(self) -> str:
        return f"image of {self.context.name}"


def find_engine() -> EngineName:
    """Return the engine of this machine that builds images. Raises InputError where there is none."""
    found = next((name for name in ENGINES if shutil.which(name)), None)
    if found is None:
        raise InputError(
            f"this machine has no {' or '.join(ENGINES)}",
            why="images are built or saved here, and copied to the hosts",
            hint="install podman, or let the hosts pull: {image: NAME, pull: missing}",
        )
    return found


def find_image(name: str) -> tuple[EngineName, ImageFacts] | None:
    """Return the engine of this machine that has an image, with its facts; None where none has it.

    Raises InputError where this machine has no engine, or one that cannot be used.
    """
    find_engine()
    found = ((engine, inspect_image(engine, name)) for engine in ENGINES if shutil.which(engine))
    return next(((engine, facts) for engine, facts in found if facts is not None), None)


@functools.cache
def inspect_image(engine: EngineName, name: str) -> ImageFacts | None:
    """Return the facts of an image of this machine; None where it has none of this name. Raises InputError."""
    done = _completed((engine, "image", "inspect", name), INSPECT_TIMEOUT_S)
    if done.returncode != 0:
        error = done.stderr.decode(errors="replace").strip()
        if re.search(r"no such image|not known|unable to find", error, re.IGNORECASE):
            return None
        raise InputError(f"{engine} cannot be used on this machine", why=_last_lines(error))
    facts = json.loads(done.stdout)[0]
    exposed = (_PORT.fullmatch(each) for each in (facts.get("Config") or {}).get("ExposedPorts") or {})
    ports = tuple(sorted(int(match[1]) for match in exposed if match))
    return ImageFacts(str(facts["Id"]).removeprefix("sha256:"), str(facts["Architecture"]), ports)


@functools.cache
def _saved(image: Image) -> BuildOutput:
    def save(folder: Path) -> None:
        image_id, is_podman = image.tag(), image.engine == "podman"
        try:
            form = ("--format", "docker-archive") if is_podman else ()
            argv = (image.engine, "save", *form, "--output", str(folder / ARCHIVE), image.reference)
            _run(argv, f"cannot save the {image}")
        finally:  # with podman, an image without any other name stays as well
            untag = ("untag", image_id) if is_podman else ("rmi",)
            _run((image.engine, *untag, image.reference), f"cannot remove the name {image.reference} of an image")
        (folder / IMAGE_ID).write_text(image_id, encoding="utf-8")

    folder = cached(cache_folder("builds") / "images" / image.key[:32], save)
    return BuildOutput(folder / ARCHIVE, (folder / IMAGE_ID).read_text(encoding="utf-8"))


def _run(argv: Sequence[str], what: str, timeout_s: float = BUILD_TIMEOUT_S) -> None:
    """Run an engine's command. Raises BenchkitError with the last lines that it printed."""
    done = _completed(argv, timeout_s)
    if done.returncode != 0:
        output = (done.stdout + done.stderr).decode(errors="replace")
        raise BenchkitError(what, where="this machine", why=_last_lines(output) or f"exit code {done.returncode}")


def _last_lines(text: str) -> str:
    return "\n    ".join(text.strip().splitlines()[-LAST_LINES:])


def _completed(argv: Sequence[str], timeout_s: float) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=timeout_s)
    except subprocess.TimeoutExpired:
        raise BenchkitError(f"`{argv[0]} {argv[1]}` did not end within {timeout_s:g} s", where="this machine") from None
