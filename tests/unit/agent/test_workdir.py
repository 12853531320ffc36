from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from benchkit.agent.common import OperationError, Workdir


def test_it_is_made_private_with_the_folders_above_it(tmp_path: Path) -> None:
    folder = tmp_path / "above" / "workdir"
    assert Workdir(str(folder)).root == folder.resolve()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert Workdir(str(folder)).root == folder.resolve(), "again is fine"


@pytest.fixture(scope="module")
def workdir(tmp_path_factory: pytest.TempPathFactory) -> Workdir:
    """A work directory with links that lead out of it."""
    made = Workdir(str(tmp_path_factory.mktemp("traps") / "workdir"))
    (made.root / "a").mkdir()
    (made.root / "a" / "out").symlink_to("/etc")
    (made.root / "a" / "loop").symlink_to(made.root)
    (made.root / "up").symlink_to("..")
    return made


def test_process_may_start_in_any_folder_that_exists(tmp_path: Path) -> None:
    workdir = Workdir(str(tmp_path / "workdir"))
    (workdir.root / "sub").mkdir()
    assert workdir.working_folder(None) == workdir.root
    assert workdir.working_folder("sub") == workdir.root / "sub"
    assert workdir.working_folder(str(tmp_path)) == tmp_path
    with pytest.raises(OperationError, match="absent is not a folder on this host"):
        workdir.working_folder(str(tmp_path / "absent"))
    with pytest.raises(OperationError, match="not below the work directory"):
        workdir.working_folder("../elsewhere")


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
