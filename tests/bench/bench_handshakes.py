"""CPU time of nginx per full TLS handshake: the scenario tls-cost beside OpenSSL's own measurements.

It runs the cells of `tls-cost` with a new connection for each request. Between their trials, `openssl s_time` loads the
same nginx: another client, which counts its connections itself. Both are CPU time of nginx alone, for a connection with
its handshake and its request.

`openssl speed` is measured on nginx's core in the same blocks. It has the asymmetric operations alone. The signature
makes the difference between the keys; the key exchange is two operations of X25519 (an ephemeral key, and the shared
secret from it). It leaves out the connection with its request, which the cell without TLS measures. It also leaves out
the messages, the schedule of keys and the records of TLS: the same for both keys.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from statistics import median

import pytest

import benchkit
from benchkit.cli.progress import SilentProgress
from benchkit.hosts.connections import Hosts, connect_all
from benchkit.hosts.processes import ProcessSpec, ToFile
from benchkit.lab.lab import Lab
from benchkit.plan.model import PlannedCell, RunPlan
from benchkit.run.run import execute
from benchkit.scenario.read import read_experiment
from benchkit.scenario.trial_order import PlannedTrial
from benchkit.services import deploy
from benchkit.store.store import Store
from tests.bench.real_runs import table
from tests.support.run.opening import open_run

pytestmark = [
    pytest.mark.skipif(
        any(
            shutil.which(name, path="/usr/sbin:/usr/bin:/usr/local/bin") is None for name in ("nginx", "wrk", "openssl")
        ),
        reason="nginx, wrk or openssl is not installed",
    ),
]

BLOCKS = 8
LIMIT = 0.15
"""Largest difference of the two columns, as a share of the reference."""
NO_TLS, ECDSA, RSA = "no TLS", "ecdsa-p256", "rsa-2048"
CELLS = ", ".join(
    f"{{stack: nginx, protocol: {protocol}, keepalive: false, key: {key}, resumption: false}}"
    for protocol, key in (("http1", ECDSA), ("https1", ECDSA), ("https1", RSA))
)
FOLDER = PurePosixPath("s_time")
CLIENTS = 4
"""Processes of s_time at once, each of which has one connection: a few fill the core of the load host."""
ASKED_S = 1
"""s_time ends up to a second later: it looks at a clock of seconds."""
CONNECTIONS = re.compile(r"^(?P<number>[0-9]+) connections in [0-9]+ real seconds", re.MULTILINE)
SPEED = ("openssl", "speed", "-mr", "-seconds", "1", "rsa2048", "ecdsap256", "ecdhx25519")
RATES = re.compile(r"^\+F(?P<kind>[245]):[0-9]+:(?P<bits>[0-9]+):(?P<per_s>[0-9.]+):", re.MULTILINE)
"""Lines of `openssl speed -mr`, as (kind, bits, operations per second of CPU time); the first rate signs."""
OPERATIONS = {("2", "2048"): RSA, ("4", "256"): ECDSA, ("5", "253"): "x25519"}


class ReferenceRunner(SilentProgress):
    """Observer of a run that measures the references after each trial, while the run holds the hosts."""

    def __init__(self, plan: RunPlan, hosts: Hosts) -> None:
        self._plan = plan
        self._hosts = hosts
        self.handshake_s: dict[str, list[float]] = {ECDSA: [], RSA: []}
        """CPU time of nginx per connection of s_time, by key; an item a block."""
        self.operation_s: dict[str, list[float]] = {name: [] for name in OPERATIONS.values()}
        """CPU time of an operation by `openssl speed`; an item a block."""

    def trial_ended(self, planned_trial: PlannedTrial, rps: float | None, verdict: str, checks: Sequence[str]) -> None:
        """Run s_time against the nginx of a cell with TLS, and `openssl speed` after the cell without."""
        del rps, verdict, checks
        cell = self._plan.cell(planned_trial.cell_id)
        if cell.spec.levels["protocol"] == "https1":
            self.handshake_s[str(cell.spec.levels["key"])].append(self._s_time(cell))
        else:
            self._speed(cell)

    def _s_time(self, cell: PlannedCell) -> float:
        """Return the CPU time of nginx per connection of s_time."""
        (service,) = cell.services
        server, client = self._hosts[service.host], self._hosts[cell.generators[0].host]
        for host in (server, client):
            host.files.mkdir_temporary(FOLDER)
        target = service.endpoint.authority
        argv = ("openssl", "s_time", "-connect", target, "-new", "-tls1_3", "-www", "/", "-time", str(ASKED_S))
        outputs = [FOLDER / f"{number}.txt" for number in range(CLIENTS)]
        nginx = deploy.start(server, service, FOLDER)
        try:
            before_s = server.processes.cpu_times([nginx.process])[nginx.process.id].total_s
            clients = client.processes.start_all(
                ProcessSpec(argv, stdout=ToFile(output), stderr="stdout") for output in outputs
            )
            ended = [process.wait(ASKED_S + 10) for process in clients]
            after_s = server.processes.cpu_times([nginx.process])[nginx.process.id].total_s
        finally:
            deploy.stop(server, [nginx])
        printed = [client.files.read(output).decode() for output in outputs]
        assert all(end is not None and end.exit_code == 0 for end in ended), printed[0]
        counts = [int(found["number"]) for text in printed if (found := CONNECTIONS.search(text))]
        assert len(counts) == len(outputs), printed[0]
        return (after_s - before_s) / sum(counts)

    def _speed(self, cell: PlannedCell) -> None:
        server = self._hosts[cell.services[0].host]
        completed = server.processes.run(SPEED, timeout_s=60)
        assert completed.ok, completed.stderr.decode()
        found = {(each["kind"], each["bits"]): each["per_s"] for each in RATES.finditer(completed.stdout.decode())}
        for operation, name in OPERATIONS.items():
            self.operation_s[name].append(1 / float(found[operation]))


def test_cpu_of_nginx_per_full_handshake(lab: Lab, tmp_path: Path) -> None:
    """Compare the medians of all blocks: within 15 % of s_time, for both keys."""
    # The references run after each trial, at the addresses of its servers.
    settings = (f"cells=[{CELLS}]", f"blocks={BLOCKS}", "claims=[]", "design=blocks", "roles.sut.quota=null")
    experiment = read_experiment("tls-cost", "lab", settings)
    with (
        connect_all(lab.inventory()) as hosts,
        open_run(experiment, hosts, Store(tmp_path)) as opened,
    ):
        references = ReferenceRunner(opened.plan, hosts)
        outcome = execute(opened, references)
    assert outcome.status == "done", outcome.failures
    trials = benchkit.load("trials", store=tmp_path, run_id=outcome.run.run_id)
    encrypted = trials["factor_protocol"] == "https1"
    measured = dict(trials[encrypted].groupby("factor_key")["server_cpu_s_per_handshake"].median())
    plain = trials[~encrypted]["server_cpu_s_per_request"].median()
    s_time, speed = (
        {name: median(each) for name, each in found.items()}
        for found in (references.handshake_s, references.operation_s)
    )
    exchange = 2 * speed["x25519"]
    rows = {
        "tls-cost": measured,
        "openssl s_time, the same nginx": s_time,
        "openssl speed: signature": speed,
        "openssl speed: key exchange": {ECDSA: exchange, RSA: exchange},
        "tls-cost: a connection without TLS": {ECDSA: plain, RSA: plain},
        "what remains of s_time's": {key: s_time[key] - speed[key] - exchange - plain for key in s_time},
    }
    print(f"\nCPU time of nginx per connection with a full handshake, medians of {BLOCKS} blocks, µs")
    print(
        table(
            ["", "ECDSA P-256", "RSA-2048", "difference"],
            [
                [name, *(f"{1e6 * each:.0f}" for each in (values[ECDSA], values[RSA], values[RSA] - values[ECDSA]))]
                for name, values in rows.items()
            ],
        )
    )
    for key, reference_s in s_time.items():
        print(f"{key}: tls-cost / s_time {measured[key] / reference_s:.3f} (limit {1 - LIMIT:g} to {1 + LIMIT:g})")
    assert all(abs(measured[key] / reference_s - 1) <= LIMIT for key, reference_s in s_time.items())
