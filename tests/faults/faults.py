"""Every fault of the suite: the check that has to notice it, and how it is made, for real, on a lab."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

from benchkit.hosts.host_changes import HostChanges
from benchkit.results.store import RunFolder
from benchkit.run.plan.model import RunPlan
from benchkit.scenario.trial_order import PlannedTrial
from tests.faults.outsiders import (
    Later,
    busy_loop,
    command_of,
    cpus_of,
    kill_nginx_worker,
    put_page_for,
    quota,
    set_quota,
    stop_for,
)
from tests.faults.stage import Judged, Meanwhile, Stage

MID_WINDOW_S = 0.2
"""After its load began: its window is a second, and whoever looks for it looks late where others work."""


@dataclass(frozen=True)
class Proof:
    """A check that has to raise its alarm, and of which trials."""

    check: str
    made: str
    """How its fault is injected: for the table."""
    struck: Callable[[Judged], bool] = field(default=lambda _: True, repr=False)
    """Which trials have the fault."""


@dataclass(frozen=True)
class Fault:
    """One way of making trials worthless, and the checks that have to notice it."""

    proofs: tuple[Proof, ...]
    scenario: Mapping[str, Any] = field(default_factory=dict)
    """What is laid over the base scenario."""
    lab: str = "plain"
    around: Callable[[Stage], AbstractContextManager[None]] = field(default=lambda _: nullcontext(), repr=False)
    """In force during the runs."""
    each: Callable[[Stage], Meanwhile] = field(default=lambda _: Meanwhile(), repr=False)
    """What happens before each trial, and in its window."""
    amend: Callable[[RunPlan], RunPlan] = field(default=lambda plan: plan, repr=False)
    doctor: Callable[[RunFolder], None] | None = field(default=None, repr=False)
    repeated: Callable[[int], Mapping[str, Any]] = field(default=lambda trials: {"blocks": trials}, repr=False)
    """What makes a run have so many trials with each fault."""
    at_once: int | None = None
    """Trials that a run has with the fault, where the check looks at all of them together; None: all in one run."""

    @property
    def name(self) -> str:
        """For test ids."""
        return "; ".join(f"{proof.check}: {proof.made}" for proof in self.proofs)


def shows(check: str, made: str) -> tuple[Proof, ...]:
    """One check notices it, in every trial."""
    return (Proof(check, made),)


def go(*faults: str, **options: object) -> dict[str, Any]:
    """The Go server with these faults and options."""
    return {"app": {"backend": "nethttp", "listen": 8080, "inject_fault": list(faults), **options}}


def one(services: Mapping[str, Any], entry: str = "app") -> dict[str, Any]:
    """A scenario of one stack."""
    return {"stacks": {"go": {"entry": entry, "services": services}}}


def fronted(**options: object) -> dict[str, Any]:
    """The same behind nginx."""
    return {
        **go(**{"listen": "127.0.0.1:9000", **options}),
        "front": {"backend": "nginx", "listen": 8080, "upstream": "app"},
    }


def nginx(body_size: int = 12, **options: object) -> dict[str, Any]:
    """A scenario of nginx alone, which serves a file of so many bytes."""
    return one({"app": {"backend": "nginx", "listen": 8080, "file_bytes": body_size, **options}})


@contextmanager
def sysctls(stage: Stage, host: str, values: Mapping[str, str]) -> Iterator[None]:
    """Kernel settings of a host for a while."""
    changes: HostChanges = stage.hosts[host].changes
    former = {key: each.value for key, each in changes.read_sysctls(list(values)).items()}
    written = changes.write_sysctls(dict(values))
    assert {each.outcome for each in written.values()} <= {"applied", "already"}, written
    try:
        yield
    finally:
        changes.write_sysctls({key: value for key, value in former.items() if value is not None})


@contextmanager
def short_queue(stage: Stage) -> Iterator[None]:
    """A backlog of 8, and a client that keeps no port waiting: short of ports it could not connect fast enough."""
    with (
        sysctls(stage, "sut", {"net.core.somaxconn": "8"}),
        sysctls(stage, "load", {"net.ipv4.tcp_max_tw_buckets": "256"}),
    ):
        yield


def few_files(plan: RunPlan) -> RunPlan:
    """Generators that may have half of the files open that their connections take."""
    cells = [
        replace(cell, generators=tuple(replace(each, nofile=128) for each in cell.generators)) for cell in plan.cells
    ]
    return replace(plan, cells=tuple(cells))


def few_users(plan: RunPlan) -> RunPlan:
    """The tool siege held to 8 users, as it comes held to 255; benchkit raises that where it asks for more.

    Ending hundreds of its threads at once, siege hangs now and then.
    """
    cells = []
    for cell in plan.cells:
        limited = {
            each.number: {name: re.sub(r"(?m)^limit = .*", "limit = 8", text) for name, text in each.files.items()}
            for each in cell.generators
        }
        assert all(limited[each.number] != each.files for each in cell.generators)
        cells.append(
            replace(cell, generators=tuple(replace(each, files=limited[each.number]) for each in cell.generators))
        )
    return replace(plan, cells=tuple(cells))


def past_a_million(run: RunFolder) -> None:
    """The output of hey with the million answers that it keeps, and the rate of twice as many."""
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


def twice_as_fast(run: RunFolder) -> None:
    """The output of h2load with twice the rate that it stated."""
    for record in run.records():
        (generator,) = record.generators
        path = run.raw(record.trial_id) / generator.files["stdout"]
        text = path.read_text()
        doctored = re.sub(r"([0-9.]+) req/s", lambda found: f"{2 * float(found[1])} req/s", text)
        assert doctored != text
        path.write_text(doctored)


def another_value(stage: Stage) -> Meanwhile:
    """Somebody changes a setting before every other block, and back."""

    def change(planned_trial: PlannedTrial) -> None:
        written = stage.hosts["sut"].changes.write_sysctls(
            {"net.core.somaxconn": "4096" if planned_trial.block % 2 else "1024"}
        )
        assert {each.outcome for each in written.values()} <= {"applied", "already"}, written

    return Meanwhile(change)


def other_ports(stage: Stage) -> Meanwhile:
    """As few ports for each trial, and others than for the one before: those are in TIME_WAIT for a minute."""

    def change(planned_trial: PlannedTrial) -> None:
        first = 20_000 + 200 * (planned_trial.block % 200)
        ports = {"net.ipv4.ip_local_port_range": f"{first} {first + 199}"}
        assert {each.outcome for each in stage.hosts["load"].changes.write_sysctls(ports).values()} <= {
            "applied",
            "already",
        }

    return Meanwhile(change)


def growing_noise(stage: Stage) -> Meanwhile:
    """A server that gets another part of its core in each trial."""
    parts = (1.0, 0.6, 0.3, 0.15, 0.8)
    return Meanwhile(lambda planned_trial: set_quota(stage.lab, "sut", parts[planned_trial.block % len(parts)]))


@contextmanager
def without_quota(stage: Stage) -> Iterator[None]:
    """Quotas set meanwhile are taken off."""
    try:
        yield
    finally:
        set_quota(stage.lab, "sut", None)


FAULTS = (
    Fault(shows("generator-saturated", "hey on one core against nginx"), {**nginx(), "load": {"tool": "hey"}}),
    Fault(
        (
            Proof("generator-saturated", "a busy loop on the load host's core"),
            Proof("noisy-host", "a busy loop on the load host's core"),
        ),
        around=lambda stage: busy_loop(cpus_of(stage.lab, "load")[0]),
    ),
    Fault(shows("shared-cpus", "a lab with all cores shared"), lab="shared"),
    Fault(shows("server-idle", "5 ms of delay in the handler"), one(go("delay:5ms"))),
    Fault(shows("server-idle", "a lock held for 0.2 ms in the handler"), one(go("lock:200us"))),
    Fault(
        (
            Proof("link-saturated", "a link capped below what the servers send"),
            Proof("plateau", "three servers behind a capped link"),
        ),
        {
            "load": {"duration_s": 2},
            "factors": {"stack": ["go", "fasthttp", "front"]},
            "stacks": {
                "go": {"entry": "app", "services": go(body_size=1000)},
                "fasthttp": {"entry": "app", "services": go(backend="fasthttp", body_size=1000)},
                "front": {"entry": "front", "services": fronted(body_size=1000)},
            },
        },
        lab="capped",
        repeated=lambda trials: {"blocks": trials // 3},
        at_once=3,
    ),
    Fault(shows("errors", "1 % of requests fail"), one(go("fail:0.01"))),
    Fault(
        (
            Proof("unequal-responses", "one server with another body", lambda trial: trial.cell_id == "stack=body"),
            Proof("unequal-responses", "one server with another header", lambda trial: trial.cell_id == "stack=header"),
        ),
        {
            "factors": {"stack": ["go", "body", "header"]},
            "stacks": {
                "body": {"entry": "app", "services": go("body:other")},
                "header": {"entry": "app", "services": go("header:X-Extra=1")},
            },
            "baseline": {"stack": "go"},
        },
    ),
    Fault(
        shows("unequal-responses", "a page of twice the size in nginx's place for a part of the window"),
        nginx(1000, open_file_cache=0),
        each=lambda stage: Later(stage.lab, MID_WINDOW_S, lambda: put_page_for(stage, 0.3, 1000, instead=2000)),
    ),
    Fault(
        shows("missing-connections", "a load tool with 128 open files for 256 connections"),
        {"load": {"connections": 256}},
        amend=few_files,
    ),
    Fault(shows("littles-law", "requests that hang"), one(go("hang:0.005"))),
    Fault(
        shows("littles-law", "a doctored output: twice the rate"), {"load": {"tool": "h2load"}}, doctor=twice_as_fast
    ),
    Fault(
        shows("accept-overflow", "a backlog of 8 and short connections"),
        {"load": {"keepalive": False, "connections": 256}},
        around=short_queue,
    ),
    Fault(
        shows("ports-exhausted", "200 local ports and short connections"),
        {"load": {"keepalive": False}},
        each=other_ports,
        around=lambda stage: sysctls(stage, "load", {"net.ipv4.ip_local_port_range": "20000 20199"}),
    ),
    Fault(
        shows("throttled", "a CPU quota of a fifth of a core on the server's host"),
        around=lambda stage: quota(stage.lab, "sut", 0.2),
    ),
    Fault(
        shows("noisy-host", "a busy loop on the server's core"),
        around=lambda stage: busy_loop(cpus_of(stage.lab, "sut")[0]),
    ),
    Fault(
        shows("cold", "a server that is slow in its first two seconds"),
        {**one(go("slow-start:2s")), "load": {"duration_s": 3}},
        at_once=3,
    ),
    Fault(
        shows("too-few-samples", "p99.9 asked of 200 requests"),
        {
            "factors": {"connections": [8, 16]},
            "load": {"tool": "h2load", "duration_s": None, "requests": 200, "connections": "$connections"},
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
            Proof("errors", "a worker of nginx killed in mid-trial"),
            Proof("service-restarted", "a worker of nginx killed in mid-trial"),
        ),
        nginx(),
        each=lambda stage: Later(stage.lab, MID_WINDOW_S, lambda: kill_nginx_worker(stage.lab)),
    ),
    Fault(
        shows("stalled", "the agent of the server's host stopped for half a second"),
        each=lambda stage: Later(
            stage.lab, MID_WINDOW_S, lambda: stop_for(stage.lab, "sut", 0.5, lambda each: "agent" in command_of(each))
        ),
    ),
    Fault(
        shows("tool-limit", "siege against answers of less than 10 ms"),
        {"load": {"tool": "siege", "duration_s": 2, "connections": 8}},
    ),
    Fault(
        shows("tool-limit", "siege held to 8 users for 12 connections"),
        {"load": {"tool": "siege", "duration_s": 2, "connections": 12}},
        amend=few_users,
    ),
    Fault(
        shows("tool-limit", "a doctored output: hey past a million answers"),
        {"load": {"tool": "hey", "histogram": False}},
        doctor=past_a_million,
    ),
    Fault(
        (Proof("drifted-host", "a kernel setting changed between blocks", lambda trial: trial.block % 2 == 0),),
        each=another_value,
        repeated=lambda trials: {"blocks": 2 * trials},
    ),
    Fault(shows("unstable", "noise of growing size"), each=growing_noise, around=without_quota, at_once=5),
)


@dataclass(frozen=True)
class Healthy:
    """Trials with nothing wrong with them, as people run them."""

    name: str
    scenario: Mapping[str, Any]


USUAL = {"load": {"duration_s": 3, "warmup_s": 1}}

HEALTHY = (
    Healthy("Go alone", USUAL),
    Healthy(
        "nginx before Go",
        {
            **USUAL,
            **one(fronted(), entry="front"),
        },
    ),
    Healthy("Go at a set rate", {"load": {**USUAL["load"], "tool": "vegeta", "rate": 2000, "connections": 8}}),
    # One h2load barely fills a core of Node: Node gets half of one, as in its study. It takes 0.4 s to come to its rate on
    # new connections, however long it worked before: in a window of 3 s the first third lacks a fifth of its answers.
    Healthy(
        "Node under h2load",
        {
            **one({"app": {"backend": "node", "listen": 8080, "workers": 1}}),
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
