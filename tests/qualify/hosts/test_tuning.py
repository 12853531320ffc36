from __future__ import annotations

from benchkit.agent.settings import Sysctls
from benchkit.hosts.host import Host
from benchkit.hosts.tuning import FileLimit, file_limit


def test_a_limit_beyond_that_of_the_kernel_is_tried_and_refused(sut: Host) -> None:
    ceiling = int(sut.call(Sysctls.read, ["fs.nr_open"])["fs.nr_open"].value or 0)
    refused = file_limit(sut.processes, ceiling + 1, sut.facts.nofile_hard)
    assert refused.why_not is not None
    assert "hard limit is" in refused.why_not
    assert file_limit(sut.processes, 100, sut.facts.nofile_hard) == FileLimit(100)
