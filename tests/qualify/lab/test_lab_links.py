"""Rate limits of links: visible, effective in both directions, and reported where they are not available."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from benchkit.lab.lab import Lab, up
from benchkit.lab.limits import NO_BUCKET_FILTER, uncapped_links
from benchkit.lab.processes import find_programs
from benchkit.lab.spec import LabHost, LabSpec

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="hosts of this user's lab have no links of their own"),
]
InHost = Callable[[Lab, str, str], Any]
CAP_BPS = 40e6
SENT_BYTES = 4_000_000
"""They take 0.84 s at the limit: a receiver that is 0.2 s late at the end still measures 0.77 of it."""

RECEIVE = f"""
import socket, time
server = socket.create_server(("", 5001))
server.settimeout(25)
peer, _ = server.accept()
peer.settimeout(10)
received, first = 0, None
while received < {SENT_BYTES}:
    chunk = peer.recv(1 << 16)
    if not chunk: break
    first = first or time.monotonic()
    received += len(chunk)
print(json.dumps({{"bytes": received, "seconds": time.monotonic() - first}}))
"""


SEND = f"""
import socket, time
for attempt in range(400):
    try:
        peer = socket.create_connection(("RECEIVER", 5001), 5)
        break
    except ConnectionRefusedError:
        time.sleep(0.05)
peer.sendall(bytes({SENT_BYTES}))
print(json.dumps(None))
"""


def _transfer(in_host: InHost, lab: Lab, sender: str, receiver: str) -> float:
    """Return the rate of a transfer between two hosts, in bits per second, as the receiver measures it."""
    with ThreadPoolExecutor() as pool:
        seen = pool.submit(in_host, lab, receiver, RECEIVE)
        pool.submit(in_host, lab, sender, SEND.replace("RECEIVER", receiver)).result()
        assert seen.result()["bytes"] == SENT_BYTES
        return float(seen.result()["bytes"] * 8 / seen.result()["seconds"])


def test_a_rate_limit_is_effective_in_both_directions(lab_name: str, in_host: InHost) -> None:
    hosts = (LabHost(name="sut", roles=("sut",), link_bps=CAP_BPS), LabHost(name="load", roles=("load",)))
    lab = up(LabSpec(name=lab_name, hosts=hosts))
    assert {spec.name: spec.link_bps for spec in lab.inventory().hosts} == {"sut": CAP_BPS, "load": None}
    assert not any("not capped" in limit for limit in lab.inventory().limits)
    discipline = "import subprocess; print(json.dumps(subprocess.check_output(['tc', 'qdisc', 'show', 'dev', 'eth0'], text=True)))"
    assert "tbf" in in_host(lab, "sut", discipline)
    assert "rate 40Mbit" in in_host(lab, "sut", discipline)
    assert "tbf" not in in_host(lab, "load", discipline)
    for sender, receiver in (("sut", "load"), ("load", "sut")):
        rates = [_transfer(in_host, lab, sender, receiver) for _ in range(3)]
        # Payload is 0.956 of the frames (1448 of 1514 bytes); the full bucket sends the first 64 KiB at once. A
        # receiver that starts late measures too high a rate, one that is delayed later too low a one.
        assert min(rates) < 1.1 * CAP_BPS
        assert max(rates) > 0.7 * CAP_BPS


def test_a_link_without_a_limit_is_far_faster(lab: Lab, in_host: InHost) -> None:
    assert any(_transfer(in_host, lab, "sut", "load") > 5 * CAP_BPS for _ in range(10)), "a delay of 0.1 s hides it"


def test_a_missing_discipline_is_distinguished_from_a_failure() -> None:
    """Check with disciplines of which nearly every kernel lacks one; a missing tbf gives the same error message."""
    found = find_programs(["ip", "tc", "unshare"])
    script = """
import sys
from benchkit.lab.inside.system import CommandError, cap_link
tc = sys.argv[1]
kinds = ("netem delay 1ms", "cake", "hhf", "etf clockid CLOCK_TAI")
print([cap_link(tc, [f"qdisc replace dev lo root {kind}"]) for kind in kinds])
try:
    cap_link(tc, ["qdisc add dev no-such-link root tbf rate 1mbit burst 10kb latency 50ms"])
except CommandError as error:
    print(error)
"""
    done = subprocess.run(
        [found["unshare"], "--net", sys.executable, "-c", script, found["tc"]],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    missing, failure = done.stdout.splitlines()
    if "False" not in missing:
        pytest.skip("this kernel has all of them")
    assert "no-such-link" in failure


def test_a_link_without_its_limit_is_reported() -> None:
    assert uncapped_links([], NO_BUCKET_FILTER) == []
    assert uncapped_links(["sut", "load"], NO_BUCKET_FILTER) == [
        "The link of sut and load is not capped: this kernel has no token bucket filter (tc tbf)."
    ]
