"""The site of a store: its pages, their links, and what is written again."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchkit.errors import InputError
from benchkit.plugins.site.site import write_site
from benchkit.store.store import Store


def test_an_empty_store_has_no_site(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the store has no runs"):
        write_site(Store(tmp_path), tmp_path / "site")
