"""Collectors of a host: pure parsers of the kernel's files (proc(5)), and clock rates and quotas.

Hosts are busy while they are sampled, so each kernel file is read once a sample, and kept open.
"""

from __future__ import annotations

import os
import re
from functools import partial
from pathlib import Path
from typing import Callable, Dict, Tuple

from benchkit.agent.cgroup_accounting import throttling_in
from benchkit.agent.cgroups import own_cgroups
from benchkit.agent.collector import (
    Collector,
    FileCollector,
    KernelFile,
    UnavailableError,
    Values,
    number_after,
    read_once,
)
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

CPUINFO = "/proc/cpuinfo"
CPUS = Path("/sys/devices/system/cpu")
CLOCK_RATE = re.compile(rb"^processor\s*:\s*(\d+)$|^cpu MHz\s*:\s*([0-9.]+)$", re.MULTILINE)
MHZ, KHZ, KIB = 1e6, 1e3, 1024

INTERFACE_COLUMNS = (
    ("net_received_bytes_total", 0),
    ("net_sent_bytes_total", 8),
)
COUNTERS = {
    b"ActiveOpens": ("tcp_active_opens_total", None),
    b"PassiveOpens": ("tcp_passive_opens_total", None),
    b"CurrEstab": ("tcp_sockets", "established"),
    b"ListenOverflows": ("listen_overflows_total", None),
    b"ListenDrops": ("listen_drops_total", None),
    b"TCPReqQFullDoCookies": ("req_queue_full_cookies_total", None),
    b"TCPReqQFullDrop": ("req_queue_full_drops_total", None),
    b"InDatagrams": ("udp_received_total", None),
    b"RcvbufErrors": ("udp_receive_buffer_errors_total", None),
    b"SndbufErrors": ("udp_send_buffer_errors_total", None),
}
"""Counters of snmp and netstat in /proc/net; those of TCP include IPv6, those of UDP do not."""
PROTOCOLS = (b"Tcp:", b"Udp:", b"TcpExt:")
UDP6 = b"Udp6"
SOCKET_STATES = {b"inuse": "in_use", b"orphan": "orphaned", b"tw": "time_wait", b"alloc": "allocated"}

SECTOR_BYTES = 512
"""Size of a sector in /proc/diskstats, whatever the disk (iostats.rst of Linux)."""
READ, WRITTEN = 5, 9
NO_DISKS = ("loop", "ram", "zram")
"""Prefixes of devices that are no disks of their own."""
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
    """Parse snmp, snmp6 or netstat of /proc/net; counters of UDP are sums of IPv4 and IPv6."""
    found: Values = {}
    lines = content.split(b"\n")
    for names, numbers in zip(lines, lines[1:]):  # noqa: B905, RUF007 - Python 3.8 has neither
        if names.startswith(PROTOCOLS) and numbers.startswith(names.split(None, 1)[0]):
            for name, number in zip(names.split(), numbers.split()):  # noqa: B905
                if name in COUNTERS:
                    found[COUNTERS[name]] = int(number)
        elif names.startswith(UDP6):
            name, number = names[len(UDP6) :].split()
            if name in COUNTERS:
                found[COUNTERS[name]] = found.get(COUNTERS[name], 0) + int(number)
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


class Frequency(Collector):
    """Clock rate by core. On many machines reading it interrupts the core, so it is read rarely.

    It has to be read under load: an idle core clocks down.
    """

    def __init__(self) -> None:
        super().__init__()
        self.sample()

    def sample(self) -> Values:
        """Return hertz by core. Raises UnavailableError where the host has no clock rates."""
        rates: Values = {}
        core = ""
        with open(CPUINFO, "rb") as file:  # noqa: PTH123 - longer than one read
            for number, mhz in CLOCK_RATE.findall(file.read()):
                if number:
                    core = number.decode()
                else:
                    rates["cpu_frequency_hz", core] = float(mhz) * MHZ
        if not rates:
            for path in CPUS.glob("cpu[0-9]*/cpufreq/scaling_cur_freq"):
                rates["cpu_frequency_hz", path.parents[1].name[len("cpu") :]] = int(read_once(str(path))) * KHZ
        if not rates:
            raise UnavailableError("clock rate: the host does not report it")
        return rates


class CpuThrottling(Collector):
    """Periods, throttled periods and throttled time, summed over all groups in force; 0 without a quota."""

    def __init__(self) -> None:
        super().__init__()
        for folder in own_cgroups():
            try:
                file = KernelFile(str(folder / "cpu.stat"))
            except UnavailableError:  # the root of a hierarchy has no file and no quota
                continue
            if throttling_in(file.read()) is not None:
                self.files.append(file)
            else:
                file.close()

    def sample(self) -> Values:
        """Return the counters; nothing where no group can have a quota."""
        found: Values = {}
        for file in self.files:
            for metric, value in zip(THROTTLING, throttling_in(file.read()) or ()):  # noqa: B905 - Python 3.8 has no strict
                found[metric, None] = found.get((metric, None), 0) + value
        return found


HOST: Tuple[Callable[[], Collector], ...] = (
    partial(FileCollector, parse_cores, "/proc/stat", "/proc/loadavg"),
    partial(FileCollector, parse_interfaces, "/proc/self/net/dev"),
    partial(FileCollector, parse_protocols, "/proc/self/net/snmp", "/proc/self/net/snmp6"),
    partial(FileCollector, parse_protocols, "/proc/self/net/netstat"),
    partial(FileCollector, parse_sockets, "/proc/self/net/sockstat", "/proc/self/net/sockstat6"),
    partial(FileCollector, parse_memory, "/proc/meminfo"),
    partial(FileCollector, parse_disks, "/proc/diskstats"),
    CpuThrottling,
)
"""Collectors of every host. A new one needs a line here, and its metrics in `benchkit.models.telemetry`."""
