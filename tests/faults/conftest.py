"""Labs for faults, and what came of all trials."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from benchkit.lab.lab import Lab, down, up
from benchkit.lab.spec import LabHost, LabSpec
from tests.faults.scores import Scores
from tests.faults.stage import Stage, staged

CAP_BPS = 8e6
"""Below what any of our servers sends on a core."""

Stages = Callable[[str], Stage]


@pytest.fixture(scope="module")
def stages(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stages]:
    """Labs by name, each made when it is first asked for; whoever is connected to a lab holds its hosts."""
    shapes = {
        "capped": LabSpec(hosts=tuple(LabHost(name=n, roles=(n,), link_bps=CAP_BPS) for n in ("sut", "load"))),
        "shared": LabSpec(shared=True),
    }
    made: dict[str, Stage] = {}
    with ExitStack() as stack:

        def stage(name: str) -> Stage:
            if name not in made:
                own = lab
                if name in shapes:
                    own = up(shapes[name].model_copy(update={"name": f"pytest-{os.getpid()}-{name}"}))
                    stack.callback(down, own.name)
                made[name] = stack.enter_context(staged(own, tmp_path_factory.mktemp(name)))
            return made[name]

        yield stage


@pytest.fixture(scope="session")
def scores() -> Iterator[Scores]:
    """What came of all trials, printed at the end."""
    counted = Scores()
    yield counted
    print(counted.markdown())  # noqa: T201 - what `make faults` is for
