"""Take runs of a store, without their raw files, into the small store that ships with the notebooks.

    python tests/notebooks/record_store.py results notebooks/recorded RUN…

The runs are real ones of a lab; `notebooks/recorded/README.md` names the commands that made them.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

from benchkit.models.rows import TABLES
from benchkit.results.store import Store

SHIPPED = re.compile(rb'"/[^"]*/scenarios/(?=[a-z-]+\.yaml")')


def record(source: Store, target: Store, names: list[str]) -> None:
    """Copy manifest, journal and tables of these runs."""
    for name in names:
        run = source.run(name)
        folder = target.path / run.path.relative_to(source.path)
        folder.mkdir(parents=True)
        for file in run.path.iterdir():
            if file.is_file():
                # Where the scenario's file stood is of use on that machine alone.
                (folder / file.name).write_bytes(SHIPPED.sub(rb'"scenarios/', file.read_bytes()))
        for table in TABLES:
            for files in source.parts(table, run_id=run.run_id).values():
                for file in files:
                    copy = target.path / file.relative_to(source.path)
                    copy.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(file, copy)


if __name__ == "__main__":
    record(Store(Path(sys.argv[1])), Store(Path(sys.argv[2])), sys.argv[3:])
