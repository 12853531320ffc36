"""Collectors of a host: pure parsers of the kernel's files (proc(5)), and clock rates and quotas."""

from __future__ import annotations

import os
import re
from functools import partial
from pathlib import Path
from typing import Callable, Dict, Tuple

from benchkit.agent.cgroups import own_cgroups, throttling_in
from benchkit.agent.common import Collector, OperationError, Values, number_after, read_bytes, read_file
from benchkit.agent.proc import TICKS

CPU_TIMES: Tuple[Tuple[str, int], ...] = (
    ("cpu_system_s_total", 3),
    ("cpu_idle_s_total", 4),
    ("cpu_iowait_s_total", 5),
    ("cpu_irq_s_total", 6),
    ("cpu_softirq_s_total", 7),
    ("cpu_steal_s_total", 8),
)
"""Metric, and position of its ticks in the line; user and nice are added up and include guests."""

CPUS = Path("/sys/devices/system/cpu")
CLOCK_RATE = re.compile(rb"^processor\s*:\s*(\d+)$|^cpu MHz\s*:\s*([0-9.]+)$", re.MULTILINE)
MHZ, KHZ, KIB = 1e6, 1e3, 1024

INTERFACE_COLUMNS = (
    ("net_received_bytes_total", 0),
    ("net_sent_bytes_total", 8),
)
COUNTERS = {
    b"ActiveOpens": ("tcp_active_opens_total", None),
    b"CurrEstab": ("tcp_sockets", "established"),
    b"ListenOverflows": ("listen_overflows_total", None),
    b"ListenDrops": ("listen_drops_total", None),
    b"TCPReqQFullDoCookies": ("req_queue_full_cookies_total", None),
    b"TCPReqQFullDrop": ("req_queue_full_drops_total", None),
}
"""Counters of snmp and netstat in /proc/net, of IPv4 and IPv6."""
PROTOCOLS = (b"Tcp:", b"TcpExt:")
SOCKET_STATES = {b"inuse": "in_use", b"orphan": "orphaned", b"tw": "time_wait", b"alloc": "allocated"}

SECTOR_BYTES = 512
"""Size of a sector in /proc/diskstats, whatever the disk (iostats.rst of Linux)."""
READ, WRITTEN = 5, 9
NO_DISKS = ("loop", "ram", "zram")
"""Prefixes of devices that are not disks of their own."""
THROTTLING = ("cgroup_periods_total", "cgroup_throttled_total", "cgroup_throttled_s_total")


def parse_cores(content: bytes) -> Values:
    """Parse /proc/stat and /proc/loadavg: CPU time of each core of the machine, context switches and load."""
    found: Values = {}
    lines = content.split(b"\n")
    for line in lines:
        if line.startswith(b"cpu"):
            field = line.split()
            core = field[0][3:].decode()
            if core:
                found["cpu_user_s_total", core] = (int(field[1]) + int(field[2])) / TICKS
                for metric, place in CPU_TIMES:
                    found[metric, core] = int(field[place]) / TICKS
    switches = number_after(content, b"ctxt ")
    if switches is not None:
        found["context_switches_total", None] = switches
    found["load1", None] = float(lines[-2].split(None, 1)[0])
    return found


def parse_interfaces(content: bytes) -> Values:
    """Parse /proc/net/dev, with loopback, which carries the load of a generator on the same host."""
    found: Values = {}
    for line in content.split(b"\n"):
        name, _, counters = line.rpartition(b":")
        field = counters.split()
        if name:
            for metric, place in INTERFACE_COLUMNS:
                found[metric, name.strip().decode()] = int(field[place])
    return found


def parse_protocols(content: bytes) -> Values:
    """Parse snmp and netstat of /proc/net."""
    found: Values = {}
    lines = content.split(b"\n")
    for names, numbers in zip(lines, lines[1:]):  # noqa: B905, RUF007 - Python 3.8 has neither
        if names.startswith(PROTOCOLS) and numbers.startswith(names.split(None, 1)[0]):
            for name, number in zip(names.split(), numbers.split()):  # noqa: B905
                if name in COUNTERS:
                    found[COUNTERS[name]] = int(number)
    return found


def parse_sockets(content: bytes) -> Values:
    """Parse sockstat and sockstat6 of /proc/net: TCP sockets by state, of IPv4 and IPv6 together."""
    found: Dict[str, int] = {}
    for line in content.split(b"\n"):
        if line.startswith((b"TCP:", b"TCP6:")):
            field = line.split()
            for name, value in zip(field[1::2], field[2::2]):  # noqa: B905 - Python 3.8 has no strict
                if name in SOCKET_STATES:
                    found[SOCKET_STATES[name]] = found.get(SOCKET_STATES[name], 0) + int(value)
    return {("tcp_sockets", state): value for state, value in found.items()}


def parse_memory(content: bytes) -> Values:
    """Parse /proc/meminfo: used memory."""
    total, available = (number_after(content, word) for word in (b"MemTotal:", b"MemAvailable:"))
    if total is None or available is None:
        return {}
    return {("memory_used_bytes", None): (total - available) * KIB}


def parse_disks(content: bytes) -> Values:
    """Parse /proc/diskstats: bytes by whole disk, which includes its partitions."""
    found: Values = {}
    for line in content.split(b"\n"):
        field = line.split(None, WRITTEN + 1)
        if len(field) > WRITTEN:
            disk = field[2].decode()
            if not disk.startswith(NO_DISKS) and os.path.exists(f"/sys/block/{disk.replace('/', '!')}"):  # noqa: PTH110
                found["disk_read_bytes_total", disk] = int(field[READ]) * SECTOR_BYTES
                found["disk_written_bytes_total", disk] = int(field[WRITTEN]) * SECTOR_BYTES
    return found


def clock_rates() -> Values:
    """Return hertz by core. Raises OperationError where the host has no clock rates.

    On many machines reading them interrupts the cores, so they are read rarely. They have to be read under load: an
    idle core clocks down.
    """
    rates: Values = {}
    core = ""
    for number, mhz in CLOCK_RATE.findall(read_file("/proc/cpuinfo")):
        if number:
            core = number.decode()
        else:
            rates["cpu_frequency_hz", core] = float(mhz) * MHZ
    for path in () if rates else CPUS.glob("cpu[0-9]*/cpufreq/scaling_cur_freq"):
        rates["cpu_frequency_hz", path.parents[1].name[len("cpu") :]] = int(read_file(str(path))) * KHZ
    if not rates:
        raise OperationError("unavailable", "clock rate: the host does not report it")
    return rates


def throttling() -> Values:
    """Return periods, throttled periods and throttled time, summed over all groups in force; 0 without a quota.

    There is nothing where no group can have a quota.
    """
    found: Values = {}
    for folder in own_cgroups():
        counts = throttling_in(read_bytes(str(folder / "cpu.stat")) or b"") or ()
        for metric, value in zip(THROTTLING, counts):  # noqa: B905 - Python 3.8 has no strict
            found[metric, None] = found.get((metric, None), 0) + value
    return found


def parsed(parse: Callable[[bytes], Values], *paths: str) -> Values:
    """Parse files of the kernel, one behind the other. Raises OperationError where they have no known values."""
    values = parse(b"".join(b"\n" + (read_bytes(path) or b"") for path in paths))
    if not values:
        raise OperationError("unavailable", f"{paths[0]} has no known values")
    return values


HOST: Tuple[Collector, ...] = (
    partial(parsed, parse_cores, "/proc/stat", "/proc/loadavg"),
    partial(parsed, parse_interfaces, "/proc/self/net/dev"),
    partial(parsed, parse_protocols, "/proc/self/net/snmp", "/proc/self/net/netstat"),
    partial(parsed, parse_sockets, "/proc/self/net/sockstat", "/proc/self/net/sockstat6"),
    partial(parsed, parse_memory, "/proc/meminfo"),
    partial(parsed, parse_disks, "/proc/diskstats"),
    throttling,
)
"""Collectors of every host. A new one needs a line here, and its metrics in `benchkit.models.telemetry`."""
