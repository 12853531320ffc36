"""Output of processes on its way to files and memory."""

from __future__ import annotations

import os
import time

from benchkit.agent.child_process import Pump, Sink


class SlowSink(Sink):
    """A sink on a busy host."""

    def write(self, piece: bytes) -> None:
        time.sleep(0.05)
        super().write(piece)


def test_after_a_flush_all_that_was_printed_before_it_is_there() -> None:
    pump = Pump()
    pump.start()
    pipes = [os.pipe() for _ in range(4)]
    sinks = [SlowSink(100) for _ in pipes]
    for (read_end, _), sink in zip(pipes, sinks, strict=True):
        pump.add(read_end, sink)
    for line in (b"one\n", b"two\n"):
        for _, write_end in pipes:
            os.write(write_end, line)
        before = [len(sink.kept) for sink in sinks]
        pump.flush()
        assert all(sink.kept.endswith(line) for sink in sinks), before
    for _, write_end in pipes:
        os.close(write_end)
    assert all(sink.done.wait(60) for sink in sinks)
