from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from benchkit.agent.common import OperationError
from benchkit.agent.workdir import Workdir


@pytest.fixture(scope="module")
def workdir(tmp_path_factory: pytest.TempPathFactory) -> Workdir:
    """A work directory with links that lead out of it."""
    made = Workdir(str(tmp_path_factory.mktemp("traps") / "workdir"))
    (made.root / "a").mkdir()
    (made.root / "a" / "out").symlink_to("/etc")
    (made.root / "a" / "loop").symlink_to(made.root)
    (made.root / "up").symlink_to("..")
    return made


parts = st.sampled_from(
    ["..", ".", "", "a", "out", "loop", "up", "store", "records", "etc", "~", "\0", "-x"]
) | st.text(max_size=4)


@given(st.lists(parts, max_size=6).map("/".join), st.booleans())
@example(path="a/out/passwd", write=False)
@example(path="a/loop/store/x", write=True)
@example(path="/etc/passwd", write=False)
def test_no_path_leads_out_of_it(workdir: Workdir, path: str, write: bool) -> None:  # noqa: FBT001 - hypothesis gives it
    try:
        place = workdir.inside(path, write=write)
    except (OperationError, OSError):
        return
    real = (place.parent.resolve() / place.name) if write else place.resolve()
    assert real == workdir.root or workdir.root in real.parents
    if write:
        assert real != workdir.root
        assert real.relative_to(workdir.root).parts[0] not in Workdir.RESERVED
