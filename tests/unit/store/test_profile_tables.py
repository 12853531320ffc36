from __future__ import annotations

import gzip
from collections import defaultdict

import pytest

from benchkit.models.profile import CATEGORIES
from benchkit.models.run import CellRecord
from benchkit.models.trial import ProfileRecord, TrialRecord
from benchkit.store.profile_tables import NO_KERNEL, NO_PROFILE, read_passes
from tests.support.paths import TESTS
from tests.unit.store.test_store import record as stored_record

FIXTURES = TESTS / "fixtures" / "profiles"
FILES = {
    "app.sut.pb.gz": (FIXTURES / "nethttp-go1.26.pb.gz").read_bytes(),
    "front.sut.perf.txt.gz": (FIXTURES / "nginx-http.perf.txt.gz").read_bytes(),
    "cut.sut.pb.gz": (FIXTURES / "gnet.pb.gz").read_bytes()[:1000],
    "idle.sut.perf.txt.gz": b"",
}


def record(*profiles: ProfileRecord) -> TrialRecord:
    return stored_record("r1.b001.p001", CellRecord(cell_id="only", levels={})).model_copy(
        update={"profiles": profiles}
    )


APP = ProfileRecord(service="app", host="sut", profiler="pprof", file="app.sut.pb.gz", started_s=0, ended_s=1)
FRONT = ProfileRecord(
    service="front", host="sut", profiler="perf", file="front.sut.perf.txt.gz", started_s=0, ended_s=1
)


def test_every_service_has_all_its_functions_and_shares_that_add_up_to_one() -> None:
    rows = read_passes(record(APP, FRONT), FILES.__getitem__)
    assert rows.notes == []
    sums: defaultdict[str, float] = defaultdict(float)
    for row in rows.shares:
        sums[row.service] += row.share
        assert row.trial_id == "r1.b001.p001"
    assert sums == {"app": pytest.approx(1), "front": pytest.approx(1)}
    assert [row.category for row in rows.shares if row.service == "app"] == list(CATEGORIES)
    for service in ("app", "front"):
        functions = [row for row in rows.functions if row.service == service]
        assert len({row.function for row in functions}) == len(functions) > 50
        assert sum(row.flat_share for row in functions) == pytest.approx(1)
        assert all(0 <= row.flat_share <= row.cum_share <= 1 for row in functions)
        assert all((row.flat_s or 0) <= (row.cum_s or 0) for row in functions)


@pytest.mark.parametrize(
    ("profile", "message"),
    [
        (
            APP.model_copy(update={"file": None, "why_not": "sut: pprof answers 404"}),
            "app on sut has no profile: sut: pprof answers 404",
        ),
        (
            APP.model_copy(update={"file": "cut.sut.pb.gz"}),
            "app on sut has no profile: cut.sut.pb.gz: the gzip file is truncated",
        ),
        (
            FRONT.model_copy(update={"file": "idle.sut.perf.txt.gz"}),
            "front on sut has no profile: idle.sut.perf.txt.gz: the file is empty",
        ),
    ],
)
def test_a_missing_profile_is_a_note_and_has_no_rows(profile: ProfileRecord, message: str) -> None:
    rows = read_passes(record(profile, APP), FILES.__getitem__)
    (note,) = rows.notes
    assert (note.trial_id, note.code) == ("r1.b001.p001", NO_PROFILE)
    assert note.message.startswith(message)
    assert {row.service for row in rows.shares} == {"app"}


def test_a_perf_that_may_not_record_the_kernel_is_noted() -> None:
    text = gzip.decompress(FILES["front.sut.perf.txt.gz"]).decode()
    user = "\n".join(line for line in text.splitlines() if not line.strip().startswith("ffff")) + "\n\n"
    rows = read_passes(record(FRONT), lambda _: user.encode())
    (note,) = rows.notes
    assert note.code == NO_KERNEL
    assert note.message.startswith("front on sut: perf may not record the kernel there")
    assert sum(row.share for row in rows.shares) == pytest.approx(1)
