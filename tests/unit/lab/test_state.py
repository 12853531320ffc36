"""Owners of labs: which lab a command uses, and which labs it leaves alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchkit.lab import state
from benchkit.lab.state import current_owner


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout without labs, from which benchkit seems to run."""
    monkeypatch.setattr(state, "current_checkout", lambda: tmp_path)
    monkeypatch.delenv("BENCHKIT_LAB", raising=False)
    return tmp_path


def test_an_owner_is_named_as_far_as_it_differs_from_the_reader(checkout: Path) -> None:
    mine = current_owner()
    assert mine.checkout == checkout
    assert str(mine) == "this checkout"
    assert str(mine.model_copy(update={"user": "somebody"})) == "this checkout and user somebody"
    assert str(mine.model_copy(update={"checkout": Path("/elsewhere")})) == "/elsewhere"
    assert not mine.is_abandoned()
    assert not current_owner(temporary_pid=1).is_abandoned()
    assert current_owner(temporary_pid=2**22 + 1).is_abandoned()
