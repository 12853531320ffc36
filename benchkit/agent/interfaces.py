"""Network interfaces and their addresses, as the kernel lists them."""

from __future__ import annotations

import array
import fcntl
import socket
import struct
from pathlib import Path
from typing import Dict, Iterator, List, Tuple

from benchkit.agent.common import read_text
from benchkit.agent.frames import Json

SIOCGIFCONF = 0x8912
"""Lists the IPv4 addresses of all interfaces, aliases included (netdevice(7))."""
REQUEST_BYTES = 40 if struct.calcsize("P") > 4 else 32  # noqa: PLR2004 - struct ifreq of 64-bit and 32-bit systems
NAME_BYTES = 16
IPV4 = slice(NAME_BYTES + 4, NAME_BYTES + 8)
"""Place of the address in struct ifreq: after the name, the family and the port."""
LAB_LINKS = "bk-"
"""Start of the names of links to the labs of this machine: they belong to hosts of their own."""
BUFFER_BYTES = 1024 * REQUEST_BYTES


def interfaces() -> List[Json]:
    """Return the network interfaces: name, MTU, rate in bits per second where known, up or not, addresses.

    Links to labs of this machine are left out. `virtual` is true where there is no device, so that the stated
    rate does not limit the interface.
    """
    addresses: Dict[str, List[str]] = {}
    for name, address in (*_ipv4_addresses(), *_ipv6_addresses()):
        addresses.setdefault(name, []).append(address)
    found = []
    for _, name in socket.if_nameindex():
        if name.startswith(LAB_LINKS):
            continue
        speed = read_text(f"/sys/class/net/{name}/speed") or ""
        mtu = read_text(f"/sys/class/net/{name}/mtu")
        state = read_text(f"/sys/class/net/{name}/operstate")
        found.append(
            {
                "name": name,
                "mtu": int(mtu) if mtu else None,
                "speed_bps": int(speed) * 1e6 if speed.isdigit() and int(speed) else None,
                "virtual": not Path(f"/sys/class/net/{name}/device").exists(),
                "up": None if state is None else state in ("up", "unknown"),
                "addresses": addresses.get(name, []),
            }
        )
    return found


def _ipv4_addresses() -> Iterator[Tuple[str, str]]:
    """Yield interface and IPv4 address; an alias (`eth0:1`) counts as its interface."""
    buffer = array.array("B", bytes(BUFFER_BYTES))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as query:
        answer = fcntl.ioctl(query, SIOCGIFCONF, struct.pack("iP", BUFFER_BYTES, buffer.buffer_info()[0]))
    (size, _) = struct.unpack("iP", answer)
    requests = buffer.tobytes()[:size]
    for start in range(0, size, REQUEST_BYTES):
        request = requests[start : start + REQUEST_BYTES]
        name = request[:NAME_BYTES].split(b"\0", 1)[0].decode()
        yield name.partition(":")[0], socket.inet_ntoa(request[IPV4])


def _ipv6_addresses() -> Iterator[Tuple[str, str]]:
    """Yield interface and IPv6 address."""
    for line in (read_text("/proc/net/if_inet6") or "").splitlines():
        field = line.split()
        yield field[-1], socket.inet_ntop(socket.AF_INET6, bytes.fromhex(field[0]))
