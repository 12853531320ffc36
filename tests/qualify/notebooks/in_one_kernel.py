"""Render notebooks as pages one after the other in one kernel, which is cleared before each: a start takes seconds.

    python tests/qualify/notebooks/in_one_kernel.py FOLDER NOTEBOOK…

Each page is FOLDER/<name>.html; where a cell fails there is FOLDER/<name>.error instead.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import nbformat
from jupyter_client.manager import KernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbconvert.exporters import HTMLExporter

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
    client = NotebookClient(notebook, km=kernel)
    try:
        client.execute()
    finally:
        if client.kc is not None:
            client.kc.stop_channels()


def render(notebook: Path, folder: Path, kernel: KernelManager) -> None:
    """Write the page of a notebook, or what failed."""
    read = notebook_of(notebook.read_text(encoding="utf-8"))
    written = dict(read.metadata)
    try:
        execute(read, kernel)
    except CellExecutionError as error:
        (folder / f"{notebook.stem}.error").write_text(str(error), encoding="utf-8")
        return
    read.metadata.update(written)  # nbconvert colours code by the language that the file names, not by the kernel's
    exporter = HTMLExporter()
    page, _ = exporter.from_notebook_node(read, {"metadata": {"name": notebook.stem}})
    (folder / f"{notebook.stem}.html").write_text(page, encoding="utf-8")


def main(folder: Path, notebooks: list[Path]) -> None:
    """Render these notebooks."""
    kernel = KernelManager(kernel_name="python3")
    kernel.start_kernel(cwd=str(notebooks[0].parent))
    try:
        for notebook in notebooks:
            execute(notebook_of(json.dumps(CLEAR)), kernel)
            render(notebook, folder, kernel)
    finally:
        kernel.shutdown_kernel(now=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]])
