"""The kernel's warning of SYN flooding: parsed from recorded lines, and caused by a few half-open connections."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from benchkit.agent.watch.kernel_log import PATH, SynFloodWarnings, warned_socket

ADDRESS, PORT = "192.0.2.1", 8099

# An address that no host has (RFC 5737) opens connections and never confirms them: the answers leave on an interface
# that leads nowhere. Two of them fill the queue of half-open connections of a socket with a backlog of 1.
FLOOD = f"""
import socket, struct, subprocess
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
"""


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        # Linux 6.18, a listening socket of Go; 5.10; IPv6.
        (
            b"6,1189,603328103,-;TCP: request_sock_subflow_v4: Possible SYN flooding on port 198.18.154.11:8080. Sending cookies.\n",
            ("198.18.154.11", 8080),
        ),
        (
            b"6,7,8,-;TCP: request_sock_TCP: Possible SYN flooding on port 80. Sending cookies.  Check SNMP counters.\n",
            (None, 80),
        ),
        (
            b"6,7,8,-;TCP: request_sock_TCPv6: Possible SYN flooding on port [::]:443. Dropping request.\n",
            ("[::]", 443),
        ),
        (b"14,7,8,-;Possible SYN flooding on port 80. Sending cookies.\n", None),  # written by a program
        (b"6,7,8,-;uplink: left promiscuous mode\n", None),
        (b"", None),
    ],
)
def test_only_the_kernels_own_warning_is_read(record: bytes, expected: tuple[str | None, int] | None) -> None:
    assert warned_socket(record) == expected


@pytest.mark.lab
@pytest.mark.skipif(
    os.geteuid() != 0 or not os.access(PATH, os.R_OK), reason="needs root, and a kernel that shows its log"
)
def test_a_flooded_port_is_counted_and_no_other() -> None:
    flooded, other = SynFloodWarnings(ADDRESS, PORT), SynFloodWarnings(ADDRESS, PORT + 1)
    key = "syn_flood_warnings_total", None
    assert flooded.sample() == {key: 0}
    subprocess.run(["unshare", "--net", sys.executable, "-c", FLOOD], check=True, timeout=20)
    later = SynFloodWarnings(ADDRESS, PORT)
    assert (flooded.sample(), other.sample(), later.sample()) == ({key: 1}, {key: 0}, {key: 0})
    for collector in (flooded, other, later):
        collector.close()
