"""The stored searches for slower commits: `<store>/bisections/<id>.json`, rewritten whole after each step."""

from __future__ import annotations

from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from benchkit.errors import InputError
from benchkit.files import read_regular
from benchkit.models.run import RunId
from benchkit.plugins.bisect.record import BisectionRecord
from benchkit.store.durable_files import PRIVATE, make_folders, write_atomically
from benchkit.validation import first_fault

FOLDER = "bisections"
_ID: TypeAdapter[str] = TypeAdapter(RunId)


def save_bisection(store: Path, record: BisectionRecord) -> None:
    """Write the record of a search, in place of an earlier state of it. Raises OSError."""
    make_folders(store / FOLDER)
    write_atomically(_file(store, record.bisection_id), record.model_dump_json(indent=2).encode(), PRIVATE)


def read_bisection(store: Path, name: str) -> BisectionRecord:
    """Return the search of this id, or the newest one for `latest`. Raises InputError."""
    names = sorted(file.stem for file in (store / FOLDER).glob("*.json"))
    if name == "latest" and names:
        name = names[-1]
    if name not in names:
        raise InputError(f"no bisection {name!r}", where=str(store), why=f"there are: {', '.join(names) or 'none'}")
    path = _file(store, _ID.validate_python(name))
    try:
        return BisectionRecord.model_validate_json(read_regular(path))
    except OSError as error:
        raise InputError("cannot read the record of the bisection", where=str(path), why=error.strerror) from None
    except ValidationError as error:
        raise InputError(
            "the record of the bisection is damaged", where=str(path), why=first_fault(error, BisectionRecord)
        ) from None


def _file(store: Path, bisection_id: str) -> Path:
    return store / FOLDER / f"{bisection_id}.json"
