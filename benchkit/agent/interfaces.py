"""Network interfaces and their addresses."""

from __future__ import annotations

import contextlib
import fcntl
import socket
import struct
from pathlib import Path
from typing import Any, Dict, List

from benchkit.agent.common import read_text
from benchkit.agent.frames import Json


def interfaces(psutil: Any) -> List[Json]:  # noqa: ANN401 - a module, or None
    """Network interfaces: name, MTU, rate in bits per second where it is known, whether it is up, addresses.

    `virtual` says that no device stands behind it: nothing holds such an interface to the rate that it states.
    """
    addresses = psutil_addresses(psutil) if psutil else kernel_addresses()
    found = []
    for _, name in socket.if_nameindex():
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


def psutil_addresses(psutil: Any) -> Dict[str, List[str]]:  # noqa: ANN401 - a module
    """IP addresses by interface, as psutil has them."""
    families = (socket.AF_INET, socket.AF_INET6)
    return {
        name: [each.address.partition("%")[0] for each in entries if each.family in families]
        for name, entries in psutil.net_if_addrs().items()
    }


def kernel_addresses() -> Dict[str, List[str]]:
    """IP addresses by interface, as the kernel gives them to anybody: the first IPv4 one, and all of IPv6."""
    found: Dict[str, List[str]] = {}
    siocgifaddr = 0x8915  # netdevice(7)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):
                answer = fcntl.ioctl(asking, siocgifaddr, struct.pack("256s", name.encode()))
                found.setdefault(name, []).append(socket.inet_ntoa(answer[20:24]))
    for line in (read_text("/proc/net/if_inet6") or "").splitlines():
        field = line.split()
        found.setdefault(field[-1], []).append(socket.inet_ntop(socket.AF_INET6, bytes.fromhex(field[0])))
    return found
