"""Slow and broken clients beside the load: started before the warm-up, ended after the measured window."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from importlib import resources
from typing import Any

from benchkit.agent.operations import ProcessSpec, ToFile
from benchkit.errors import HostError
from benchkit.hosts.files import PlacedFile
from benchkit.hosts.processes import HostProcess
from benchkit.loadtools.generators.generator import time_limit_s
from benchkit.models.load import NOISE_FILE, Noise
from benchkit.models.protocol import is_tls
from benchkit.run.steps.state import Block, Trial
from benchkit.store.telemetry_table import noise_record, read_noise

PROGRAM, ERRORS = "noise.py", "noise.stderr.txt"
READY_S = 15.0
"""Longest time for all connections to be open before the load; a check reports fewer connections."""
POLL_S = 0.1
STOP_GRACE_S = 2.0
SPARE_S = 60.0
"""Time beyond the load after which the program ends by itself, even if the controller is lost."""


def start_noise(trial: Trial) -> None:
    """Start the slow and broken clients on the first load host, and wait until their connections are open."""
    load, generator = trial.cell.load, trial.cell.generators[0]
    noise = load.noise
    if noise is None or not noise.is_any:
        return
    host, folder = trial.load_hosts[0], trial.folder
    content = resources.files("benchkit.agent").joinpath(PROGRAM).read_bytes()
    host.files.place([PlacedFile(folder / PROGRAM, content)])
    spec = ProcessSpec(
        ("python3", "-I", "-S", str(host.workdir / folder / PROGRAM), json.dumps(_config(trial, noise))),
        cpus=generator.cpus,
        nofile=generator.nofile,
        stdout=ToFile(folder / NOISE_FILE),
        stderr=ToFile(folder / ERRORS),
    )
    trial.noise = host.processes.start(spec)
    deadline_s = time.monotonic() + READY_S
    while time.monotonic() < deadline_s:
        _require_running(trial, trial.noise)
        reports = read_noise(host.files.read(folder / NOISE_FILE))
        if reports and reports[-1].connections >= noise.connections:
            return
        time.sleep(POLL_S)


def collect_noise(block: Block) -> None:
    """End the slow and broken clients, and record what they did in the window. Raises HostError if they ended early."""
    for trial in block.trials:
        if trial.noise is None:
            continue
        host = trial.load_hosts[0]
        _require_running(trial, trial.noise)
        process = trial.noise
        stop_noise(trial)
        content = host.files.read(trial.folder / NOISE_FILE)
        trial.files[NOISE_FILE] = content
        (window_ns,) = block.windows_ns(trial, host)
        cpus = trial.cell.generators[0].cpus
        trial.noise_record = noise_record(read_noise(content), window_ns, host.name, process.argv, cpus)


def stop_noise(trial: Trial) -> None:
    """End the slow and broken clients, where they run. Raises HostError."""
    if trial.noise is not None:
        process, trial.noise = trial.noise, None
        trial.load_hosts[0].processes.stop([process], grace_s=STOP_GRACE_S)


def _config(trial: Trial, noise: Noise) -> Mapping[str, Any]:
    load, target = trial.cell.load, trial.cell.generators[0].target
    address, _, port = target.authority.rpartition(":")
    return {
        "address": address.strip("[]"),
        "port": int(port),
        "tls": is_tls(target.protocol),
        "host": target.server_name or target.authority,
        "path": noise.path or load.request_mix[0].path,
        "slow_readers": noise.slow_readers,
        "half_open": noise.half_open,
        "malformed_per_s": noise.malformed,
        "read_bytes_per_s": noise.read_bytes_per_s,
        "seconds": READY_S + load.warmup_s + time_limit_s(load) + SPARE_S,
    }


def _require_running(trial: Trial, process: HostProcess) -> None:
    ended = process.wait(0)
    if ended is None:
        return
    host = trial.load_hosts[0]
    printed = host.files.read(trial.folder / ERRORS).decode(errors="replace").strip()
    raise HostError(
        "the slow and broken clients ended before the load",
        where=host.name,
        why=printed.rpartition("\n")[2] or f"exit code {ended.exit_code}",
        hint="noise needs Python 3.8 or newer as python3 on the first load host",
    )
