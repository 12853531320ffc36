"""The files of a script that is a load: itself, and what it imports or opens beside it."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path

from benchkit.files import read_regular

_COMMENTS = re.compile(r"/\*.*?\*/|^\s*//[^\n]*", re.DOTALL | re.MULTILINE)
_IMPORT = re.compile(r"""(?:\bfrom|\bimport|\b(?:import|require)\s*\()\s*(["'`])(\.{1,2}/[^"'`\n]+)\1""")
_OPEN = re.compile(r"""\bopen\s*\(\s*(["'`])([^"'`\n:]+)\1""")
"""A file that is read; a path with a variable in it is not known."""
SOURCES = (".js", ".mjs", ".cjs", ".ts")


def read_script(path: Path) -> dict[str, bytes]:
    """Return the content of a script and of all that it imports, by their paths from its folder.

    Raises OSError for a file that cannot be read, ValueError for one outside of the script's folder.
    """
    files: dict[str, bytes] = {}
    wanted = [path.name]
    while wanted:
        name = wanted.pop()
        if name in files:
            continue
        files[name] = read_regular(path.parent / name)
        if name.endswith(SOURCES):
            wanted += _imported(name, files[name].decode(errors="replace"))
    return files


def _imported(name: str, text: str) -> Iterator[str]:
    code = _COMMENTS.sub("", text)
    for pattern in (_IMPORT, _OPEN):
        for _, reference in pattern.findall(code):
            if "${" in reference:
                continue
            found = posixpath.normpath(posixpath.join(posixpath.dirname(name), reference))
            if found.startswith(("../", "/")):
                raise ValueError(f"{name} reads {reference}, outside of the script's folder: move it there")
            yield found
