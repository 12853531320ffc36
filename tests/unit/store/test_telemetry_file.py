from __future__ import annotations

import pytest

from benchkit.errors import ParseError
from benchkit.store.telemetry_table import read_telemetry

WRITTEN = b"""\
{"format":1,"interval_s":1.0}
{"group":0,"service":null,"series":[["load1",null],["cpu_idle_s_total","0"]]}
{"group":1,"service":"app","series":[["thread_cpu_s_total","7"]]}
{"t_ns":10,"values":{"0":[0.5,3],"1":[0.25]}}
{"t_ns":20,"values":{"0":[0.5,4]}}
{"group":1,"service":"app","series":[["thread_cpu_s_total","8"],["thread_cpu_s_total","7"]]}
{"t_ns":30,"values":{"0":[0.75,5],"1":[0.1,0.5]}}
{"ended_ns":31,"cpu_quota":null,"unseen":[]}
"""


def test_samples_are_collected_by_series_when_groups_change() -> None:
    found = read_telemetry(WRITTEN)
    assert {key: (series.t_ns, series.numbers) for key, series in found.items()} == {
        (None, "load1", None): ([10, 20, 30], [0.5, 0.5, 0.75]),
        (None, "cpu_idle_s_total", "0"): ([10, 20, 30], [3, 4, 5]),
        ("app", "thread_cpu_s_total", "7"): ([10, 30], [0.25, 0.5]),
        ("app", "thread_cpu_s_total", "8"): ([30], [0.1]),
    }


def test_a_file_that_ends_within_a_line_is_read_up_to_there() -> None:
    for end in range(
        WRITTEN.index(b'{"t_ns":20'), WRITTEN.index(b'{"group":1,"service":"app","series":[["thread_cpu_s_total","8"')
    ):
        found = read_telemetry(WRITTEN[:end])
        assert found[None, "load1", None].t_ns == [10], end


@pytest.mark.parametrize("content", [b'{"format":2}\n', b"[]\n", b"wrk 4.2\n", b'{"format":1}\nnonsense\n{}\n'])
def test_other_files_are_refused(content: bytes) -> None:
    with pytest.raises(ParseError):
        read_telemetry(content)


def test_an_empty_file_has_no_series() -> None:
    assert read_telemetry(b"") == {}
