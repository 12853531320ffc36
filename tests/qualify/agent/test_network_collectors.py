"""The kernel's warning of SYN flooding, caused by half-open connections, and counters of dropped datagrams."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from benchkit.agent.network_collectors import KERNEL_LOG, Snmp, SynFloodWarnings
from tests.support.waiting import wait_until

ADDRESS, PORT = "192.0.2.1", 8099

# An address that no host has (RFC 5737) opens connections and never confirms them: the answers leave on an interface
# that leads nowhere. Two of them fill the queue of half-open connections of a socket with a backlog of 1.
FLOOD = f"""
import socket, struct, subprocess, time
for line in ("link add name near type veth peer name far", "link set near up", "link set far up", "link set lo up",
             "addr add {ADDRESS}/24 dev near"):
    subprocess.run(["ip", *line.split()], check=True)
server = socket.create_server(("{ADDRESS}", {PORT}), backlog=1)
raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
source, target = socket.inet_aton("192.0.2.9"), socket.inet_aton("{ADDRESS}")
def checksum(data):
    total = sum(struct.unpack(f"!{{len(data) // 2}}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
for port in range(20000, 20006):
    head = struct.pack("!HHIIBBH", port, {PORT}, 1, 0, 5 << 4, 2, 1024)
    pseudo = source + target + struct.pack("!BBH", 0, socket.IPPROTO_TCP, 20)
    segment = head + struct.pack("!HH", checksum(pseudo + head + bytes(4)), 0)
    packet = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 40, 0, 0, 64, socket.IPPROTO_TCP, 0, source, target)
    raw.sendto(packet + segment, ("{ADDRESS}", 0))
def is_flooded():
    names, numbers = [line.split() for line in open("/proc/net/netstat") if line.startswith("TcpExt:")]
    counts = dict(zip(names, numbers))
    return any(int(counts[name]) for name in ("TCPReqQFullDoCookies", "TCPReqQFullDrop"))
deadline = time.monotonic() + 45
while not is_flooded() and time.monotonic() < deadline:  # a busy kernel handles packets later, and none of a closed port
    time.sleep(0.01)
"""


@pytest.mark.skipif(
    os.geteuid() != 0 or not os.access(KERNEL_LOG, os.R_OK), reason="needs root, and a kernel that shows its log"
)
def test_a_flooded_port_is_counted_and_no_other() -> None:
    flooded, other = SynFloodWarnings(ADDRESS, PORT), SynFloodWarnings(ADDRESS, PORT + 1)
    key = "syn_flood_warnings_total", None
    assert flooded.sample() == {key: 0}
    subprocess.run(["unshare", "--net", sys.executable, "-c", FLOOD], check=True, timeout=60)
    later = SynFloodWarnings(ADDRESS, PORT)
    assert (flooded.sample(), other.sample(), later.sample()) == ({key: 1}, {key: 0}, {key: 0})
    for collector in (flooded, other, later):
        collector.close()


@pytest.mark.parametrize(("family", "address"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_datagrams_that_a_full_buffer_drops_are_counted(family: socket.AddressFamily, address: str) -> None:
    counters = Snmp()
    with socket.socket(family, socket.SOCK_DGRAM) as reader, socket.socket(family, socket.SOCK_DGRAM) as writer:
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)  # the kernel's least: two datagrams or so
        reader.bind((address, 0))
        before = counters.sample()
        for _ in range(300):
            writer.sendto(bytes(1000), reader.getsockname())
        reader.recv(2000)

        def increase() -> dict[str, float]:
            return {name: value - before[name, instance] for (name, instance), value in counters.sample().items()}

        wait_until(lambda: increase()["udp_receive_buffer_errors_total"] >= 250)  # a busy kernel delivers them later
        increases = increase()
    counters.close()
    assert increases["udp_sent_total"] >= 300
    assert increases["udp_received_total"] >= 1
    assert 250 <= increases["udp_receive_buffer_errors_total"] <= increases["udp_in_errors_total"]
