"""The kernel's warning of SYN flooding: parsed from recorded lines, and caused by a few half-open connections."""

from __future__ import annotations

import pytest

from benchkit.agent.network_collectors import warned_socket

# An address that no host has (RFC 5737) opens connections and never confirms them: the answers leave on an interface
# that leads nowhere. Two of them fill the queue of half-open connections of a socket with a backlog of 1.


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
