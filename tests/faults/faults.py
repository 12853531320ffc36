"""Faults of the suite: how each is injected into a real lab, and the check that must detect it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from benchkit.agent.settings import Sysctls
from benchkit.loadtools.generators.generator import Generator
from benchkit.plan.model import RunPlan
from benchkit.scenario.trial_order import PlannedTrial
from benchkit.services import nginx as nginx_services
from benchkit.services.nginx import hello_body
from benchkit.services.templates import render_config
from benchkit.store.run_folder import RunFolder
from tests.faults.disturbances import (
    DelayedAction,
    busy_loop,
    command_of,
    cpus_of,
    kill_nginx_worker,
    put_page_for,
    quota,
    set_quota,
    stop_for,
)
from tests.faults.fault_lab import FaultLab, JudgedTrial, TrialHook

MID_WINDOW_S = 0.2
"""Delay after the load began, which is noticed late on busy machines."""
LONG_WINDOW_S = 3
"""Window of faults that begin in it: time to notice the load, and to do what the fault takes, on busy machines."""


@dataclass(frozen=True)
class ExpectedFinding:
    """A check that must report a finding, and the trials with its fault."""

    check: str
    injection: str
    """Description of the injected fault, for the table."""
    has_fault: Callable[[JudgedTrial], bool] = field(default=lambda _: True, repr=False)
    """Predicate of the trials with the fault."""
    names: str = ""
    """Words that the finding must have: what was at fault."""

    def is_noticed(self, trial: JudgedTrial) -> bool:
        """Return True if the check reported the trial, and named what was at fault."""
        return self.check in trial.findings and self.names in trial.findings[self.check]


def of_stack(name: str) -> Callable[[JudgedTrial], bool]:
    """Return the predicate of the trials of a stack, in a scenario that varies nothing else."""
    return lambda trial: trial.cell_id == f"stack={name}"


@dataclass(frozen=True)
class Fault:
    """One way of making trials unusable, and the checks that must detect it."""

    expected: tuple[ExpectedFinding, ...]
    scenario: Mapping[str, Any] = field(default_factory=dict)
    """Fields that override the base scenario."""
    lab: str = "plain"
    context: Callable[[FaultLab], AbstractContextManager[None]] = field(default=lambda _: nullcontext(), repr=False)
    """Context that is active during the runs."""
    hook: Callable[[FaultLab], TrialHook] = field(default=lambda _: TrialHook(), repr=False)
    """Actions before each trial and during its window."""
    amend_plan: Callable[[RunPlan], RunPlan] = field(default=lambda plan: plan, repr=False)
    edit_raw_files: Callable[[RunFolder], None] | None = field(default=None, repr=False)
    repetitions: Callable[[int], Mapping[str, Any]] = field(default=lambda trials: {"blocks": trials}, repr=False)
    """Fields of the scenario that give this number of trials with each fault."""
    trials_per_run: int | None = None
    """Faulty trials per run, for checks that compare all of them; None: all in one run."""
    needs_quiet_host: bool = False
    """True where other tests beside it hide its effect, as they take CPU time, too: only `make faults` injects it."""

    @property
    def name(self) -> str:
        """Name for test ids."""
        return "; ".join(f"{expectation.check}: {expectation.injection}" for expectation in self.expected)


def expects(check: str, injection: str, names: str = "") -> tuple[ExpectedFinding, ...]:
    """Return the expectation that one check reports every trial."""
    return (ExpectedFinding(check, injection, names=names),)


def go(*faults: str, **options: object) -> dict[str, Any]:
    """Return the Go server with these faults and options."""
    return {"app": {"backend": "nethttp", "listen": 8080, "inject_fault": list(faults), **options}}


def single_stack(services: Mapping[str, Any], entry: str = "app") -> dict[str, Any]:
    """Return a scenario with one stack."""
    return {"stacks": {"go": {"entry": entry, "services": services}}}


def behind_nginx(**options: object) -> dict[str, Any]:
    """Return the Go server behind nginx."""
    return {
        **go(**{"listen": "127.0.0.1:9000", **options}),
        "front": {"backend": "nginx", "listen": 8080, "upstream": "app"},
    }


def nginx(body_size: int = 12, **options: object) -> dict[str, Any]:
    """Return a scenario with nginx alone, which serves a file of this size."""
    return single_stack({"app": {"backend": "nginx", "listen": 8080, "file_bytes": body_size, **options}})


def sliced(services: Mapping[str, Any], name: str = "faulty", *, duration_s: float = 1) -> dict[str, Any]:
    """Return a scenario of sliced blocks in which the usual Go server is compared with another stack of this name."""
    return {
        "design": "sliced",
        "load": {"tool": "h2load", "connections": 16, "duration_s": duration_s},
        "factors": {"stack": ["go", name]},
        "stacks": {name: {"entry": "app", "services": services}},
        "baseline": {"stack": "go"},
    }


@contextmanager
def sysctls(fault_lab: FaultLab, host: str, values: Mapping[str, str]) -> Iterator[None]:
    """Apply kernel settings to a host for a while."""
    agent = fault_lab.hosts[host]
    former = {key: each.value for key, each in agent.call(Sysctls.read, list(values)).items()}
    written = agent.call(Sysctls.write, values)
    assert {each.outcome for each in written.values()} <= {"applied", "already"}, written
    try:
        yield
    finally:
        agent.call(Sysctls.write, {key: value for key, value in former.items() if value is not None})


@contextmanager
def short_queue(fault_lab: FaultLab) -> Iterator[None]:
    """Limit the backlog to 8 and release client ports at once: short of ports, the client could not connect in time."""
    with (
        sysctls(fault_lab, "sut", {"net.core.somaxconn": "8"}),
        sysctls(fault_lab, "load", {"net.ipv4.tcp_max_tw_buckets": "256"}),
    ):
        yield


def limit_open_files(plan: RunPlan) -> RunPlan:
    """Limit the open files of generators to half of what their connections need."""
    cells = [
        replace(cell, generators=tuple(replace(each, nofile=128) for each in cell.generators)) for cell in plan.cells
    ]
    return replace(plan, cells=tuple(cells))


def limit_siege_users(plan: RunPlan) -> RunPlan:
    """Limit siege to 8 users, as its default limits it to 255; benchkit raises that where a cell needs more.

    siege sometimes hangs when it ends hundreds of its threads at once.
    """
    cells = tuple(
        replace(cell, generators=tuple(LimitedGenerator(**vars(each)) for each in cell.generators))
        for cell in plan.cells
    )
    assert all(b"limit = 8\n" in each.files["siege.conf"] for cell in cells for each in cell.generators)
    return replace(plan, cells=cells)


class LimitedGenerator(Generator):
    """A siege whose configuration file allows 8 users."""

    @property
    def files(self) -> Mapping[str, bytes]:
        """Its files, with another limit."""
        return {name: re.sub(rb"(?m)^limit = .*", b"limit = 8", text) for name, text in super().files.items()}


def exceed_hey_cap(run: RunFolder) -> None:
    """Edit hey's output: the million results that it keeps, and the rate of twice as many."""
    for record in run.records():
        (generator,) = record.generators
        path = run.raw(record.trial_id) / generator.files["stdout"]
        text = path.read_text()
        total = re.search(r"(?m)^\s*Total:\s*([0-9.]+) secs$", text)
        assert total is not None
        text, rates = re.subn(r"(Requests/sec:\s*)[0-9.]+", rf"\g<1>{2e6 / float(total[1]):.4f}", text)
        text, statuses = re.subn(r"(\[200\]\s*)[0-9]+( responses)", r"\g<1>1000000\2", text)
        assert (rates, statuses) == (1, 1)
        path.write_text(text)


def double_h2load_rate(run: RunFolder) -> None:
    """Edit h2load's output: twice the rate."""
    for record in run.records():
        (generator,) = record.generators
        path = run.raw(record.trial_id) / generator.files["stdout"]
        text = path.read_text()
        doctored = re.sub(r"([0-9.]+) req/s", lambda found: f"{2 * float(found[1])} req/s", text)
        assert doctored != text
        path.write_text(doctored)


def toggle_sysctl(fault_lab: FaultLab) -> TrialHook:
    """Change a setting before every other block, and restore it."""

    def change(planned_trial: PlannedTrial) -> None:
        written = fault_lab.hosts["sut"].call(
            Sysctls.write, {"net.core.somaxconn": "4096" if planned_trial.block % 2 else "1024"}
        )
        assert {each.outcome for each in written.values()} <= {"applied", "already"}, written

    return TrialHook(change)


def rotate_ports(fault_lab: FaultLab) -> TrialHook:
    """Give each trial a few local ports, other ones than the trial before: those are in TIME_WAIT for a minute."""

    def change(planned_trial: PlannedTrial) -> None:
        first = 20_000 + 200 * (planned_trial.block % 200)
        ports = {"net.ipv4.ip_local_port_range": f"{first} {first + 199}"}
        assert {each.outcome for each in fault_lab.hosts["load"].call(Sysctls.write, ports).values()} <= {
            "applied",
            "already",
        }

    return TrialHook(change)


def vary_quota(fault_lab: FaultLab) -> TrialHook:
    """Give the server another share of its core in each trial."""
    parts = (1.0, 0.6, 0.3, 0.15, 0.8)
    return TrialHook(lambda planned_trial: set_quota(fault_lab.lab, "sut", parts[planned_trial.block % len(parts)]))


@contextmanager
def quotas_removed(fault_lab: FaultLab) -> Iterator[None]:
    """Remove quotas that were set meanwhile."""
    try:
        yield
    finally:
        set_quota(fault_lab.lab, "sut", None)


OWN_CONFIG = """\
daemon off;
error_log stderr;
pid nginx.pid;
events {}
http {
    access_log off;
    keepalive_requests 1000000;
    server {
        listen {{ host }}:{{ port }} ssl;
        ssl_certificate {{ certificate }};
        ssl_certificate_key {{ certificate_key }};
        ssl_protocols TLSv1.3;
        ssl_session_tickets on;
        location / { return 200 "Hello World\\n"; }
    }
}
"""
"""A configuration of a user, who forgot HTTP/2, wrote one version of TLS, and left ciphers and tickets as they are."""
OTHER_CIPHER = "TLS_CHACHA20_POLY1305_SHA256"
"""A suite that no client and server choose of themselves where the processor has instructions for AES."""


@contextmanager
def own_config(fault_lab: FaultLab) -> Iterator[None]:
    """Write that configuration beside the scenario."""
    (fault_lab.folder / "own.conf.j2").write_text(OWN_CONFIG)
    yield


def own_nginx(**options: object) -> dict[str, Any]:
    """Return a stack of an nginx that has that configuration."""
    run = "nginx -p ./ -c own.conf -e stderr"
    app = {"backend": "command", "listen": 8080, "files": ["own.conf.j2"], "run": run, **options}
    return {"entry": "app", "services": {"app": app}}


@contextmanager
def tickets_left_on(_: FaultLab) -> Iterator[None]:
    """Have nginx issue session tickets, whatever the scenario says."""

    def with_tickets(template: Path, **values: object) -> str:
        return render_config(template, **values).replace("ssl_session_tickets off", "ssl_session_tickets on")

    with patch.object(nginx_services, "render_config", with_tickets):
        yield


FAULTS = (
    Fault(
        tuple(
            ExpectedFinding("protocol-mismatch", injection, of_stack(stack), names)
            for stack, injection, names in (
                ("h2", "nginx without HTTP/2 in a cell of h2, under hey", "https1, not h2"),
                ("version", "nginx with TLS 1.3 in a cell of TLS 1.2", "TLS 1.3, not 1.2"),
                ("cipher", "nginx with its own choice of cipher suites in a cell of one", f"not {OTHER_CIPHER}"),
            )
        ),
        {
            "factors": {"stack": ["h2", "version", "cipher"]},
            "stacks": {
                "h2": own_nginx(protocol="h2"),
                "version": own_nginx(protocol="https1", tls={"version": "1.2"}),
                "cipher": own_nginx(protocol="https1", tls={"ciphers": OTHER_CIPHER}),
            },
            "load": {"tool": "hey", "connections": 1},
        },
        context=own_config,
    ),
    Fault(
        expects("handshake-share", "nginx with session tickets where full handshakes are wanted"),
        {
            **single_stack(
                {
                    "app": {
                        "backend": "nginx",
                        "listen": 8080,
                        "file_bytes": 12,
                        "protocol": "https1",
                        "tls": {"resumption": False},
                    }
                }
            ),
            "load": {"connections": 4, "keepalive": False},
        },
        context=tickets_left_on,
    ),
    Fault(
        expects("generator-saturated", "hey on one core against nginx"),
        {**nginx(), "load": {"tool": "hey"}},
        needs_quiet_host=True,
    ),
    Fault(
        (
            ExpectedFinding("generator-saturated", "a busy loop on the load host's core"),
            ExpectedFinding("noisy-host", "a busy loop on the load host's core"),
        ),
        context=lambda fault_lab: busy_loop(cpus_of(fault_lab.lab, "load")[0]),
    ),
    Fault(expects("shared-cpus", "a lab with all cores shared"), lab="shared"),
    Fault(
        (
            ExpectedFinding("link-saturated", "a link capped below what the servers send"),
            ExpectedFinding("plateau", "three servers behind a capped link"),
        ),
        {
            "load": {"duration_s": 2},
            "factors": {"stack": ["go", "fasthttp", "front"]},
            "stacks": {
                "go": {"entry": "app", "services": go(body_size=1000)},
                "fasthttp": {"entry": "app", "services": go(backend="fasthttp", body_size=1000)},
                "front": {"entry": "front", "services": behind_nginx(body_size=1000)},
            },
        },
        lab="capped",
        repetitions=lambda trials: {"blocks": trials // 3},
        trials_per_run=3,
        needs_quiet_host=True,
    ),
    Fault(
        expects("rate-held", "a CPU quota of a fifth of a core on the load host", "The load tool was at fault"),
        {"load": {"tool": "openloop", "rate": 10_000}},
        context=lambda fault_lab: quota(fault_lab.lab, "load", 0.2),
    ),
    Fault(
        expects("rate-held", "a server of less than half the rate", "The server was at fault"),
        {**single_stack(go(work="loop:4000000")), "load": {"tool": "openloop", "rate": 2000}},
        needs_quiet_host=True,
    ),
    Fault(
        expects("rate-held", "a link capped at half the rate", "The link was at fault"),
        {**single_stack(go(body_size=1000)), "load": {"tool": "openloop", "rate": 1500}},
        lab="capped",
    ),
    Fault(expects("errors", "1 % of requests fail"), single_stack(go("fail:0.01"))),
    Fault(
        (
            ExpectedFinding("unequal-responses", "one server with a larger body", of_stack("larger")),
            ExpectedFinding("unequal-responses", "one server with no body", of_stack("empty")),
        ),
        {
            "factors": {"stack": ["go", "larger", "empty"]},
            "stacks": {
                "larger": {"entry": "app", "services": go(body_size=1000)},
                "empty": {"entry": "app", "services": go(body_size=0)},
            },
            "baseline": {"stack": "go"},
        },
    ),
    Fault(
        expects("unequal-responses", "a page of twice the size in nginx's place for a part of the window"),
        {**nginx(1000, open_file_cache=0), "load": {"duration_s": LONG_WINDOW_S}},
        hook=lambda fault_lab: DelayedAction(
            fault_lab.lab, MID_WINDOW_S, lambda: put_page_for(fault_lab, 0.3, 1000, hello_body(2000))
        ),
    ),
    Fault(
        expects("changed-response", "another page of the same size from a part of the window on"),
        {**nginx(1000, open_file_cache=0), "load": {"duration_s": LONG_WINDOW_S}},
        hook=lambda fault_lab: DelayedAction(
            fault_lab.lab,
            MID_WINDOW_S,
            lambda: put_page_for(fault_lab, LONG_WINDOW_S + 1, 1000, hello_body(1000).swapcase()),
        ),
    ),
    Fault(
        expects("missing-connections", "a load tool with 128 open files for 256 connections"),
        {"load": {"connections": 256}},
        amend_plan=limit_open_files,
    ),
    # After 1,280 requests all 64 connections hang: a slow server, too, answers so many in a part of a second.
    Fault(expects("littles-law", "requests that hang"), single_stack(go("hang:0.05"))),
    Fault(
        expects("littles-law", "a doctored output: twice the rate"),
        {"load": {"tool": "h2load"}},
        edit_raw_files=double_h2load_rate,
    ),
    Fault(
        expects("accept-overflow", "a backlog of 8 and short connections"),
        {"load": {"keepalive": False, "connections": 256}},
        context=short_queue,
    ),
    Fault(
        expects("ports-exhausted", "200 local ports and short connections"),
        {"load": {"keepalive": False}},
        hook=rotate_ports,
        context=lambda fault_lab: sysctls(fault_lab, "load", {"net.ipv4.ip_local_port_range": "20000 20199"}),
    ),
    Fault(
        expects("throttled", "a CPU quota of a fifth of a core on the server's host"),
        context=lambda fault_lab: quota(fault_lab.lab, "sut", 0.2),
    ),
    Fault(
        expects("noisy-host", "a busy loop on the server's core"),
        context=lambda fault_lab: busy_loop(cpus_of(fault_lab.lab, "sut")[0]),
    ),
    Fault(
        # On a busy machine two seconds pass from the server's start to the load.
        expects("cold", "a server that is slow in its first four seconds"),
        {**single_stack(go("slow-start:4s")), "load": {"duration_s": 6}},
        trials_per_run=3,
    ),
    Fault(
        expects("too-few-samples", "p99.9 asked of 200 requests"),
        {
            "factors": {"connections": [8, 16]},
            "load": {"tool": "h2load", "duration_s": None, "request_count": 200, "connections": "$connections"},
            "claims": [
                {
                    "text": "None.",
                    "ratio": {"of": {"connections": 16}, "to": {"connections": 8}},
                    "metric": "latency_p999_s",
                    "at_most": 1.0,
                }
            ],
        },
    ),
    Fault(
        (
            ExpectedFinding("errors", "a worker of nginx killed in mid-trial"),
            ExpectedFinding("service-restarted", "a worker of nginx killed in mid-trial"),
        ),
        {**nginx(), "load": {"duration_s": LONG_WINDOW_S}},
        hook=lambda fault_lab: DelayedAction(fault_lab.lab, MID_WINDOW_S, lambda: kill_nginx_worker(fault_lab.lab)),
    ),
    Fault(
        expects("stalled", "the agent of the server's host stopped for half a second"),
        {"load": {"duration_s": LONG_WINDOW_S}},
        hook=lambda fault_lab: DelayedAction(
            fault_lab.lab,
            MID_WINDOW_S,
            lambda: stop_for(fault_lab.lab, "sut", 0.5, lambda each: "agent" in command_of(each)),
        ),
    ),
    Fault(
        expects("tool-limit", "siege against answers of less than 10 ms"),
        {"load": {"tool": "siege", "duration_s": 2, "connections": 8}},
    ),
    Fault(
        expects("tool-limit", "siege held to 8 users for 12 connections"),
        {"load": {"tool": "siege", "duration_s": 2, "connections": 12}},
        amend_plan=limit_siege_users,
    ),
    Fault(
        expects("tool-limit", "a doctored output: hey past a million answers"),
        {"load": {"tool": "hey", "histogram": False}},
        edit_raw_files=exceed_hey_cap,
    ),
    Fault(
        (
            ExpectedFinding(
                "drifted-host", "a kernel setting changed between blocks", lambda trial: trial.block % 2 == 0
            ),
        ),
        hook=toggle_sysctl,
        repetitions=lambda trials: {"blocks": 2 * trials},
    ),
    Fault(
        (
            ExpectedFinding(
                "busy-neighbour",
                "an idle server that uses a twentieth of a core",
                of_stack("go"),
            ),
        ),
        sliced(go("background:0.05")),
    ),
    Fault(
        (
            ExpectedFinding(
                "carry-over",
                "a server that works on for 0.2 s after its slice",
                of_stack("go"),
            ),
            ExpectedFinding(
                "busy-neighbour",
                "a server that works on for 0.2 s after its slice",
                of_stack("go"),
            ),
        ),
        sliced(go("linger:200ms"), duration_s=3),
        trials_per_run=3,
        needs_quiet_host=True,
    ),
    Fault(
        (
            ExpectedFinding(
                "few-requests-in-slice",
                "slices of 0.1 s for answers after 20 ms",
                of_stack("slow"),
            ),
        ),
        {**sliced(go("delay:20ms"), "slow"), "slice_s": 0.1},
    ),
    Fault(expects("unstable", "noise of growing size"), hook=vary_quota, context=quotas_removed, trials_per_run=5),
)


@dataclass(frozen=True)
class Healthy:
    """A set-up of trials without faults, as people run them."""

    name: str
    scenario: Mapping[str, Any]
    follows_speed: bool = True
    """True if a core limits its rate, so that trials on slower cores are no repetitions of the others."""


USUAL = {"load": {"duration_s": 3, "warmup_s": 1}}

HEALTHY = (
    Healthy("Go alone", USUAL),
    Healthy("Go over TLS", {**USUAL, **single_stack(go(protocol="https1"))}),
    Healthy(
        "Go over HTTP/2",
        {
            **single_stack(go(protocol="h2")),
            "load": {**USUAL["load"], "tool": "h2load", "connections": 8, "streams": 8},
        },
    ),
    Healthy(
        "nginx before Go",
        {
            **USUAL,
            **single_stack(behind_nginx(), entry="front"),
        },
    ),
    # On a virtual core that its host takes away at times, a hundredth of the requests may be sent a millisecond late.
    # That is more than a tenth of a short latency.
    Healthy(
        "Go at a set rate",
        {
            **single_stack(go("delay:50ms")),
            "load": {**USUAL["load"], "tool": "openloop", "rate": 500, "connections": 64},
        },
        follows_speed=False,
    ),
    # One h2load barely fills a core of Node: Node gets half of one, as in its study. It takes 0.4 s to come to its rate
    # on new connections, however long it worked before. In a window of 3 s the first third lacks a fifth of its
    # answers.
    Healthy(
        "Node under h2load",
        {
            **single_stack({"app": {"backend": "node", "listen": 8080, "workers": 1}}),
            "roles": {"sut": {"quota": 0.5}, "load": {}},
            "load": {"duration_s": 10, "warmup_s": 4, "tool": "h2load"},
        },
    ),
    # One ab cannot fill a core of nginx with new connections: nginx gets less than one, as in the studies.
    Healthy(
        "a file from nginx over short connections",
        {
            **nginx(1000),
            "roles": {"sut": {"quota": 0.33}, "load": {}},
            "load": {**USUAL["load"], "tool": "ab", "keepalive": False},
        },
    ),
)
