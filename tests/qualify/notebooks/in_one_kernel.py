"""Render notebooks as pages one after the other in one kernel, which is cleared before each: a start takes seconds.

    python tests/qualify/notebooks/in_one_kernel.py [--keep] FOLDER NOTEBOOK…

Each page is FOLDER/<name>.html; where a cell fails there is FOLDER/<name>.error instead. The picture of the cell
`plain` is FOLDER/<name>.png; with --keep it is written into the notebook, too, as its only output.
"""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path
from typing import Any

import nbformat
from jupyter_client.manager import KernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbconvert.exporters import HTMLExporter

KEEP = "--keep"
PLAIN = "plain"
"""Id of the cell whose picture is kept in the file."""

CLEARING = """\
import sys
if "matplotlib.pyplot" in sys.modules:
    sys.modules["matplotlib.pyplot"].close("all")
get_ipython().reset(new_session=True)
get_ipython().execution_count = 0
"""
"""No name that a notebook made is there for the next one, and its cells are counted from one."""
CLEAR: dict[str, Any] = {
    "nbformat": 4,
    "nbformat_minor": 5,
    "metadata": {},
    "cells": [
        {"cell_type": "code", "id": "clear", "metadata": {}, "source": CLEARING, "outputs": [], "execution_count": None}
    ],
}


def notebook_of(text: str) -> nbformat.NotebookNode:
    """Return the notebook of a file's text."""
    read: nbformat.NotebookNode = nbformat.reads(text, as_version=4)
    return read


def execute(notebook: nbformat.NotebookNode, kernel: KernelManager) -> None:
    """Execute a notebook from top to bottom in that kernel. Raises CellExecutionError."""
    # By default outputs that come more than 4 s after the end of their cell are missing without an error.
    client = NotebookClient(notebook, km=kernel, iopub_timeout=120, raise_on_iopub_timeout=True)
    try:
        client.execute()
    finally:
        if client.kc is not None:
            client.kc.stop_channels()


def picture_of(notebook: nbformat.NotebookNode) -> str | None:
    """Return the picture that the cell `plain` drew, in base64; None for a notebook without one."""
    outputs = [output for cell in notebook.cells if cell.id == PLAIN for output in cell.outputs]
    return next((str(each.data["image/png"]) for each in outputs if "image/png" in each.get("data", {})), None)


def keep(picture: str, notebook: Path) -> None:
    """Write a picture into the file of a notebook, as the only output of its cell `plain`."""
    document = json.loads(notebook.read_text(encoding="utf-8"))
    for cell in document["cells"]:
        if cell["id"] == PLAIN:
            data = {"image/png": picture.strip(), "text/plain": ["<Figure>"]}
            cell["outputs"] = [{"output_type": "display_data", "metadata": {}, "data": data}]
    notebook.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def render(notebook: Path, folder: Path, kernel: KernelManager, *, keeps: bool) -> None:
    """Write the page of a notebook, or what failed."""
    read = notebook_of(notebook.read_text(encoding="utf-8"))
    written = dict(read.metadata)
    try:
        execute(read, kernel)
    except CellExecutionError as error:
        (folder / f"{notebook.stem}.error").write_text(str(error), encoding="utf-8")
        return
    if (picture := picture_of(read)) is not None:
        (folder / f"{notebook.stem}.png").write_bytes(base64.b64decode(picture))
        if keeps:
            keep(picture, notebook)
    read.metadata.update(written)  # nbconvert colours code by the language that the file names, not by the kernel's
    exporter = HTMLExporter()
    page, _ = exporter.from_notebook_node(read, {"metadata": {"name": notebook.stem}})
    (folder / f"{notebook.stem}.html").write_text(page, encoding="utf-8")


def main(folder: Path, notebooks: list[Path], *, keeps: bool) -> None:
    """Render these notebooks."""
    kernel = KernelManager(kernel_name="python3")
    kernel.start_kernel(cwd=str(notebooks[0].parent))
    try:
        for notebook in notebooks:
            execute(notebook_of(json.dumps(CLEAR)), kernel)
            render(notebook, folder, kernel, keeps=keeps)
    finally:
        kernel.shutdown_kernel(now=True)


if __name__ == "__main__":
    names = [Path(name) for name in sys.argv[1:] if name != KEEP]
    main(names[0], names[1:], keeps=KEEP in sys.argv)
