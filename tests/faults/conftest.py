"""Labs for fault injection, and the scores of all trials."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from benchkit.lab.lab import Lab, down, up
from benchkit.lab.spec import LabHost, LabSpec
from tests.faults.fault_lab import FaultLab, connected_lab
from tests.faults.scores import Scores

CAP_BPS = 8e6
"""Rate below what any server here sends on one core."""

FaultLabs = Callable[[str], FaultLab]


@pytest.fixture(scope="module")
def fault_labs(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultLabs]:
    """Labs by name, each created on first use; a connection to a lab locks its hosts."""
    shapes = {
        "capped": LabSpec(hosts=tuple(LabHost(name=n, roles=(n,), link_bps=CAP_BPS) for n in ("sut", "load"))),
        "shared": LabSpec(shared=True),
    }
    labs: dict[str, FaultLab] = {}
    with ExitStack() as stack:

        def fault_lab(name: str) -> FaultLab:
            if name not in labs:
                own = lab
                if name in shapes:
                    own = up(shapes[name].model_copy(update={"name": f"pytest-{os.getpid()}-{name}"}))
                    stack.callback(down, own.name)
                labs[name] = stack.enter_context(connected_lab(own, tmp_path_factory.mktemp(name)))
            return labs[name]

        yield fault_lab


@pytest.fixture(scope="session")
def scores() -> Iterator[Scores]:
    """Scores of the session, printed at its end."""
    counted = Scores()
    yield counted
    print(counted.markdown())  # noqa: T201 - what `make faults` is for
