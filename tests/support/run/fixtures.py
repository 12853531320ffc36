from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol

import pytest

from benchkit.models.run import CellRecord
from benchkit.run.recorder import RunRecorder, recording
from benchkit.store.store import Store
from tests.qualify.chaos.conftest import command_server, new_bench, stores
from tests.qualify.chaos.kit import Bench
from tests.unit.store.test_store import manifest

__all__ = ["command_server", "new_bench", "stores"]


@pytest.fixture
def bench(new_bench: Callable[[], Bench]) -> Bench:
    return new_bench()


CELL = CellRecord(cell_id="only", levels={})


class OpenRecorder(Protocol):
    """Function that opens a recorder; see `open_recorder`."""

    def __call__(
        self, run_id: str = "r1", *, cells: Sequence[CellRecord] = (CELL,), blocks: int = 1
    ) -> AbstractContextManager[RunRecorder]: ...


@pytest.fixture
def open_recorder(tmp_path: Path) -> OpenRecorder:
    """A function that opens the recorder of a new run in a store of the test."""

    @contextmanager
    def open_new(
        run_id: str = "r1", *, cells: Sequence[CellRecord] = (CELL,), blocks: int = 1
    ) -> Iterator[RunRecorder]:
        store = Store(tmp_path)
        run = store.create(manifest(run_id, cells=tuple(cells)).model_copy(update={"blocks": blocks}))
        with run.locked(), recording(run, store) as recorder:
            yield recorder

    return open_new
