"""Every check on both sides of its threshold, on what is stored of a trial."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import ClassVar

import pytest

from benchkit.analysis.verdicts.check import ALL, CPU, LOAD, RATES
from benchkit.analysis.verdicts.checks.cold import LEAST_LOOKS, SPEEDS, first_over_last
from benchkit.analysis.verdicts.evidence import Evidence
from benchkit.analysis.verdicts.judge import judge_trial
from benchkit.analysis.verdicts.registry import CHECKS
from benchkit.models.load_result import Errors, LoadResult
from benchkit.models.metrics import LATENCIES
from benchkit.models.run import ControllerRecord
from benchkit.models.thresholds import Thresholds
from benchkit.models.trial import ProfileRecord
from tests.analysis.verdicts.builders import (
    WINDOW_S,
    Key,
    cores,
    generator,
    load,
    look,
    sent,
    service,
    trial,
    unchecked,
    watch,
)

UNKNOWN = ["link-saturated"]
"""What cannot be known of the healthy trial: nobody says how fast its links are."""


def test_a_healthy_trial_is_valid_and_says_what_nobody_could_know() -> None:
    judgement = judge_trial(trial(), Thresholds())
    assert judgement.findings == ()
    assert judgement.verdict == "valid"
    assert list(judgement.skipped) == UNKNOWN


def test_every_code_of_the_page_has_its_check() -> None:
    assert sorted(CHECKS) == sorted(
        [
            *("accept-overflow", "cold", "drifted-host", "errors", "generator-saturated", "link-saturated"),
            *("littles-law", "missing-connections", "noisy-host", "observed", "plateau", "ports-exhausted"),
            *("server-idle", "service-restarted", "shared-cpus", "stalled", "throttled", "too-few-samples"),
            *("tool-limit", "unequal-responses", "unstable"),
        ]
    )


def test_without_telemetry_most_checks_say_that_they_could_not_be_made() -> None:
    bare = Evidence(
        record=trial().record.model_copy(
            update={
                "services": (service(pids_before=(), pids_after=(), cpus=()),),
                "generators": (generator(cpus=()),),
                "watched": (),
            }
        ),
        row=trial().row,
    )
    judgement = judge_trial(bare, Thresholds())
    assert judgement.verdict == "valid"
    assert set(judgement.skipped) >= {
        *("accept-overflow", "cold", "generator-saturated", "link-saturated", "missing-connections", "noisy-host"),
        *("server-idle", "service-restarted", "shared-cpus", "stalled", "throttled"),
    }


def test_every_reason_says_what_was_seen_what_it_means_and_what_to_do() -> None:
    reason = look("generator-saturated", trial(generators=(generator(cpu_s=0.95 * WINDOW_S),)))
    assert reason is not None
    assert reason.text == (
        "The load tool (wrk) on load took 95.0 % of the CPU that it may use (from 90.0 % on). The load tool was the "
        "limit, so its rate and its times are its own and not the server's. Give it more cores, threads or processes, "
        "add a load host, or lower the server's CPU."
    )


class TestGeneratorSaturated:
    @pytest.mark.parametrize(("share", "raised"), [(0.89, False), (0.91, True)])
    def test_a_process(self, share: float, *, raised: bool) -> None:
        found = look("generator-saturated", trial(generators=(generator(cpu_s=share * WINDOW_S),)))
        assert (found is not None) == raised
        assert found is None or (found.severity, found.metrics) == ("invalid", LOAD)

    def test_not_where_the_load_tool_only_asks(self) -> None:
        full = trial(generators=(generator(cpu_s=WINDOW_S),))
        assert look("generator-saturated", full, generator_cpu=1) is None

    def test_never_voids_the_servers_cpu_per_request(self) -> None:
        found = look("generator-saturated", trial(generators=(generator(cpu_s=WINDOW_S),)))
        assert found is not None
        assert not set(CPU) & set(found.metrics)

    def test_one_thread_of_several_cores(self) -> None:
        """A wrk of one thread that may run on two cores is full at one."""
        one = generator(cpu_s=0.95 * WINDOW_S, cpus=(1, 2))
        two = generator(cpu_s=0.95 * WINDOW_S, cpus=(1, 2), threads=2)
        more = cores("load", 2)
        assert look("generator-saturated", trial(more, generators=(one,))) is not None
        assert look("generator-saturated", trial(more, generators=(two,))) is None

    def test_the_busiest_thread_of_several(self) -> None:
        threads: dict[Key, dict[float, float]] = {
            ("thread_cpu_s_total", "load", "generator-1", "71"): {0.1: 0.0, 1.9: 1.75},
            ("thread_cpu_s_total", "load", "generator-1", "72"): {0.1: 0.0, 1.9: 0.2},
        }
        two = generator(cpu_s=1.95, cpus=(1, 2), threads=2)
        assert look("generator-saturated", trial({**cores("load", 2), **threads}, generators=(two,))) is not None
        go = generator(cpu_s=1.95, cpus=(1, 2), threads=None, argv=("hey",))
        assert look("generator-saturated", trial({**cores("load", 2), **threads}, generators=(go,))) is None

    @pytest.mark.parametrize(("user", "raised"), [(0.84, False), (0.86, True)])
    def test_its_host_filled_by_others(self, user: float, *, raised: bool) -> None:
        found = look("generator-saturated", trial(cores("load", 1, user=user, softirq=0.05)))
        assert (found is not None) == raised

    @pytest.mark.parametrize(("quota", "raised"), [(0.7, False), (0.6, True)])
    def test_a_quota_on_its_host(self, quota: float, *, raised: bool) -> None:
        watched = (watch("sut"), watch("load", cpu_quota=quota))
        assert (look("generator-saturated", trial(watched=watched)) is not None) == raised

    def test_an_unwatched_host_is_said_unless_the_process_is_enough(self) -> None:
        without = tuple(f"cpu_{kind}_s_total" for kind in ("idle", "iowait", "steal"))
        assert unchecked("generator-saturated", trial(without=without)) == "not watched: the cores of load"
        full = generator(cpu_s=0.95 * WINDOW_S)
        assert look("generator-saturated", trial(without=without, generators=(full,))) is not None


class TestSharedCpus:
    @pytest.mark.parametrize(("cpus", "raised"), [((1,), False), ((0, 1), True)])
    def test_on_one_machine(self, cpus: tuple[int, ...], *, raised: bool) -> None:
        found = look("shared-cpus", trial(generators=(generator(cpus=cpus),)))
        assert (found is not None) == raised
        assert found is None or (found.severity, found.metrics) == ("suspect", ALL)

    @pytest.mark.parametrize(
        ("machine", "cpus", "raised"),
        [("one machine", (1,), False), ("one machine", (0, 1), True), ("mine", (0,), False)],
    )
    def test_with_the_controller(self, machine: str, cpus: tuple[int, ...], *, raised: bool) -> None:
        beside = ControllerRecord(machine=machine, cpus=cpus)
        found = look("shared-cpus", trial(controller=beside))
        assert (found is not None) == raised
        assert found is None or found.seen == "the server and benchkit itself may run on the same CPU: 0"

    def test_the_same_number_on_another_machine_is_another_cpu(self) -> None:
        elsewhere = {"load": {"boot_id": "another"}}
        assert look("shared-cpus", trial(generators=(generator(cpus=(0,)),), facts=elsewhere)) is None


class TestLinkSaturated:
    FAST: ClassVar[dict[str, object]] = {"link_bps": 10e9}

    def card(self, **fields: object) -> dict[str, object]:
        return {"interfaces": [{"name": "eth0", "speed_bps": 1e9, "virtual": False, "addresses": [], **fields}]}

    @pytest.mark.parametrize(("share", "raised"), [(0.89, False), (0.91, True)])
    def test_a_cap(self, share: float, *, raised: bool) -> None:
        capped: dict[str, dict[str, object]] = {"sut": {"link_bps": 50e6}, "load": self.FAST}
        found = look("link-saturated", trial(sent("sut", share * 50e6), facts=capped))
        assert (found is not None) == raised
        assert found is None or (found.severity, found.metrics) == ("invalid", LOAD)

    def test_in_the_other_direction(self) -> None:
        received: dict[Key, dict[float, float]] = {
            ("net_sent_bytes_total", "sut", None, "eth0"): {-0.01: 0, 3.05: 10},
            ("net_received_bytes_total", "sut", None, "eth0"): {-0.01: 0, 3.05: 18e6},
        }
        found = look("link-saturated", trial(received, facts={"sut": {"link_bps": 50e6}}))
        assert found is not None
        assert "received" in found.seen

    @pytest.mark.parametrize(("packets", "raised"), [(0, False), (4_200_000, True)])
    def test_small_packets_fill_ethernet_before_their_bytes_do(self, packets: int, *, raised: bool) -> None:
        facts = {"sut": self.card(), "load": self.FAST}
        found = look("link-saturated", trial(sent("sut", 0.7e9, packets), facts=facts))
        assert (found is not None) == raised

    def test_what_a_virtual_interface_states_is_no_limit(self) -> None:
        facts = {"sut": self.card(virtual=True), "load": self.FAST}
        said = unchecked("link-saturated", trial(sent("sut", 2e9), facts=facts))
        assert said == "nobody says how fast the links of sut are (inventory: link_bps)"

    @pytest.mark.parametrize(("bits_per_s", "known"), [(0.19e9, True), (0.5e9, False)])
    def test_the_link_that_carried_the_load_has_to_be_of_a_known_rate(self, bits_per_s: float, *, known: bool) -> None:
        """Beside one that is, which carried 0.1 Gbit/s; a bridge counts once more what that carried."""
        facts = {"sut": self.card(), "load": self.FAST}
        evidence = trial({**sent("sut", 0.1e9), **sent("sut", bits_per_s, interface="br0")}, facts=facts)
        if known:
            assert look("link-saturated", evidence) is None
        else:
            assert "the links of sut are" in unchecked("link-saturated", evidence)

    def test_every_host_has_its_links(self) -> None:
        facts = {"sut": self.FAST}
        assert "the links of load are" in unchecked("link-saturated", trial(facts=facts))
        unwatched: dict[Key, dict[float, float]] = {("net_sent_bytes_total", "load", None, "eth0"): {9.0: 0.0}}
        assert unchecked("link-saturated", trial(unwatched, facts=facts)) == "not watched: the links of load"


class TestServerIdle:
    def taking(self, share: float, **fields: object) -> Evidence:
        taken: dict[Key, dict[float, float]] = {
            ("cpu_s_total", "sut", "app", None): {-0.01: 0, 3.05: share * WINDOW_S},
            **cores("sut", 0, user=share),
        }
        return trial(taken, **fields)  # type: ignore[arg-type] # fields of the record

    @pytest.mark.parametrize(("share", "raised"), [(0.61, False), (0.59, True)])
    def test_of_one_core(self, share: float, *, raised: bool) -> None:
        found = look("server-idle", self.taking(share))
        assert (found is not None) == raised
        assert found is None or (found.severity, found.metrics) == ("invalid", RATES)

    def test_at_a_set_rate_a_server_may_be_idle(self) -> None:
        assert look("server-idle", self.taking(0.1, load=load(rate=100.0))) is None

    def test_the_kernels_work_for_it_counts(self) -> None:
        taken: dict[Key, dict[float, float]] = {("cpu_s_total", "sut", "app", None): {-0.01: 0, 3.05: 0.5 * WINDOW_S}}
        assert look("server-idle", trial({**taken, **cores("sut", 0, user=0.5, softirq=0.2)})) is None

    def test_the_kernels_work_is_not_counted_twice(self) -> None:
        """Where the kernel counts interrupts to the processes as well: half of the core idles."""
        taken: dict[Key, dict[float, float]] = {("cpu_s_total", "sut", "app", None): {-0.01: 0, 3.05: 0.5 * WINDOW_S}}
        assert look("server-idle", trial({**taken, **cores("sut", 0, user=0.3, softirq=0.2)})) is not None

    @pytest.mark.parametrize("limit", [{"parallelism": 1}, {"parallelism": 4, "quota": 1.0}])
    def test_the_kernels_work_fills_cores_and_not_what_a_service_is_held_to(self, limit: dict[str, object]) -> None:
        one = service(cpus=(0, 1, 2, 3), **limit)
        taken: dict[Key, dict[float, float]] = {("cpu_s_total", "sut", "app", None): {-0.01: 0, 3.05: 0.2 * WINDOW_S}}
        busy = {key: value for cpu in (0, 1, 2, 3) for key, value in cores("sut", cpu, user=0.05, softirq=0.2).items()}
        assert look("server-idle", trial({**taken, **busy}, services=(one,))) is not None
        full = {key: value for cpu in (0, 1, 2, 3) for key, value in cores("sut", cpu, user=0.05, softirq=0.6).items()}
        assert look("server-idle", trial({**taken, **full}, services=(one,))) is None

    @pytest.mark.parametrize(("front", "behind", "raised"), [(0.2, 0.1, True), (0.7, 0.1, False), (0.2, 0.2, False)])
    def test_a_quota_is_that_of_its_role(self, front: float, behind: float, *, raised: bool) -> None:
        taken: dict[Key, dict[float, float]] = {
            ("cpu_s_total", "sut", name, None): {-0.01: 0, 3.05: share * WINDOW_S}
            for name, share in (("front", front), ("app", behind))
        }
        services = (service(quota=0.3), service(name="front", backend="nginx"))
        seen = {**taken, **cores("sut", 0, user=front + behind)}
        assert (look("server-idle", trial(seen, services=services)) is not None) == raised

    @pytest.mark.parametrize(("each", "raised"), [(0.08, True), (0.1, False)])
    def test_services_of_a_role_have_its_quota_together(self, each: float, *, raised: bool) -> None:
        taken: dict[Key, dict[float, float]] = {
            ("cpu_s_total", "sut", name, None): {-0.01: 0, 3.05: each * WINDOW_S} for name in ("front", "app")
        }
        services = (service(quota=0.3), service(name="front", quota=0.3))
        seen = {**taken, **cores("sut", 0, user=2 * each)}
        assert (look("server-idle", trial(seen, services=services)) is not None) == raised

    @pytest.mark.parametrize(("parallelism", "raised"), [(1, False), (4, True)])
    def test_against_what_its_options_allow(self, parallelism: int, *, raised: bool) -> None:
        four = service(cpus=(0, 1, 2, 3), parallelism=parallelism)
        assert (look("server-idle", trial(services=(four,))) is not None) == raised

    def test_against_its_quota(self) -> None:
        quota = (watch("sut", cpu_quota=0.5), watch("load"))
        assert look("server-idle", self.taking(0.4, watched=quota)) is None

    def test_one_full_part_of_a_stack_is_enough(self) -> None:
        """A proxy of four workers before a Go server of one thread that is full."""
        front = service(name="front", backend="nginx", cpu_s=0.8, cpus=(0, 1, 2, 3), parallelism=4)
        app = service(cpus=(0, 1, 2, 3), parallelism=1)
        assert look("server-idle", trial(services=(app, front))) is None

    def test_without_telemetry_the_record_knows(self) -> None:
        assert look("server-idle", trial(without=("cpu_s_total",), services=(service(cpu_s=1.0),))) is not None


class TestErrors:
    @pytest.mark.parametrize(
        ("failed", "severity"),
        [({}, None), ({"non_2xx": 1}, "suspect"), ({"errors_timeout": 100}, "suspect"), ({"non_2xx": 101}, "invalid")],
    )
    def test_by_their_share(self, failed: dict[str, int], severity: str | None) -> None:
        found = look("errors", trial(row=failed))
        assert (found.severity if found else None) == severity
        assert found is None or found.metrics == ALL

    def test_connects_that_failed_were_no_requests(self) -> None:
        found = look("errors", trial(row={"errors_connect": 100, "requests": 0, "rps": 0.0}))
        assert found is not None
        assert found.severity == "invalid"
        assert "100 failed connects: 100 %" in found.seen

    SILENT: ClassVar = dict.fromkeys(("errors_connect", "errors_read", "errors_write", "errors_timeout", "non_2xx"))

    def test_a_tool_that_counts_nothing(self) -> None:
        assert unchecked("errors", trial(row=self.SILENT))

    def test_a_tool_that_tells_no_kinds(self) -> None:
        """Failures of ab that are only answers of another length are none."""
        siege = generator(result=LoadResult(tool="siege", failed=200))
        found = look("errors", trial(row=self.SILENT, generators=(siege,)))
        assert found is not None
        assert found.severity == "invalid"
        varying = generator(result=LoadResult(tool="ab", failed=200, failed_length=200))
        assert look("errors", trial(row=self.SILENT, generators=(varying,))) is None

    def test_failures_of_no_kind(self) -> None:
        hey = generator(result=LoadResult(tool="hey", errors=Errors(other=1)))
        found = look("errors", trial(generators=(hey,)))
        assert found is not None
        assert found.seen.startswith("1 other failures")


class TestUnequalResponses:
    @pytest.mark.parametrize(("each", "raised"), [(153, False), (12, False), (154.4, False), (155.6, True), (60, True)])
    def test_bytes_under_load_are_those_of_the_probe(self, each: float, *, raised: bool) -> None:
        """With headers or without, as the tool counts."""
        found = look("unequal-responses", trial(row={"bytes_total": 100_000 * each}))
        assert (found is not None) == raised
        assert found is None or (found.severity, found.metrics) == ("invalid", ALL)

    def test_answers_may_be_half_there_when_time_is_up(self) -> None:
        """64 connections, of which each had got half of an answer."""
        open_at_end = {"requests": 290, "bytes_total": (290 + 32) * 153.0}
        assert look("unequal-responses", trial(row=open_at_end)) is None
        assert look("unequal-responses", trial(row=open_at_end, load=load(connections=8))) is not None

    @pytest.mark.parametrize(
        ("differs", "raised"),
        [
            ({"what": ["body_bytes", "body"], "varies": True}, False),
            ({"what": ["header_bytes"], "varies": True, "cells": {"stack": "status"}}, False),
            ({"what": ["header_bytes"], "varies": True, "cells": {"stack": "other"}}, True),
            ({"what": ["status", "body"], "varies": True}, True),
            ({"what": ["header_bytes", "body_bytes", "body"]}, True),
        ],
    )
    def test_a_scenario_may_say_that_lengths_vary(self, differs: dict[str, object], *, raised: bool) -> None:
        """That cells differ is not the same: each of them still answers as it does at rest."""
        scenario = {"differs": [{"why": "the page counts its own requests", **differs}]}
        row = {"bytes_total": 100_000 * 170}
        found = look("unequal-responses", trial(row=row, scenario=scenario, levels={"stack": "status"}))
        assert (found is not None) == raised

    @pytest.mark.parametrize(
        ("tool", "said", "each", "raised"),
        [
            ("ab", (("Connection", "close"),), 153 - 19, False),
            ("ab", (), 153 + 24, False),
            ("ab", (("Connection", "close"),), 153 - 24, True),
            ("wrk", (("Connection", "close"),), 153 - 19, True),
            ("wrk", (), 153 + 24, True),
        ],
    )
    def test_answers_to_http_1_0_say_otherwise_what_becomes_of_the_connection(
        self, tool: str, said: tuple[tuple[str, str], ...], each: int, *, raised: bool
    ) -> None:
        probe = trial().record.probe.model_copy(update={"headers": said})
        row = {"tool": tool, "bytes_total": 100_000 * each}
        assert (look("unequal-responses", trial(row=row, probe=probe)) is not None) == raised

    @pytest.mark.parametrize(("frames", "raised"), [(0, False), (5 + 5, False), (2 * (5 + 5), True), (-5, True)])
    def test_frames_of_chunks_may_be_counted_or_not(self, frames: int, *, raised: bool) -> None:
        probe = trial().record.probe.model_copy(update={"headers": (("Transfer-Encoding", "chunked"),)})
        row = {"bytes_total": 100_000 * (153 + frames)}
        assert (look("unequal-responses", trial(row=row, probe=probe)) is not None) == raised

    def test_megabytes_as_printed_are_no_finer(self) -> None:
        few = {"requests": 1000, "bytes_total": 0.14 * (1 << 20)}
        assert look("unequal-responses", trial(row=few)) is not None
        assert look("unequal-responses", trial(row=few, load=load(histogram=False))) is None


class TestMissingConnections:
    def counted(self, *counts: float) -> dict[Key, dict[float, float]]:
        return self.at(dict(zip((0.5, 1.0, 1.5), counts, strict=True)))

    def at(self, counts: Mapping[float, float]) -> dict[Key, dict[float, float]]:
        return {("connections_established", "sut", "app", "8080"): dict(counts)}

    @pytest.mark.parametrize(("counts", "raised"), [((64, 61, 64), False), ((64, 60, 64), True)])
    def test_at_every_look(self, counts: tuple[float, ...], *, raised: bool) -> None:
        found = look("missing-connections", trial(self.counted(*counts)))
        assert (found is not None) == raised
        assert found is None or (found.severity, found.metrics) == ("invalid", ALL)

    COUNTED: ClassVar = load(duration_s=None, requests=100_000)

    @pytest.mark.parametrize(("t_s", "raised"), [(2.6, True), (2.8, False), (3.02, False)])
    def test_clients_whose_requests_are_all_made_leave(self, t_s: float, *, raised: bool) -> None:
        found = look("missing-connections", trial(self.at({0.5: 64, 1.5: 64, t_s: 30}), load=self.COUNTED))
        assert (found is not None) == raised

    def test_one_look_may_be_all_that_a_number_of_requests_leaves_time_for(self) -> None:
        assert look("missing-connections", trial(self.at({0.5: 64, 3.02: 0}), load=self.COUNTED)) is None
        assert unchecked("missing-connections", trial(self.at({3.02: 0}), load=self.COUNTED))

    def test_a_look_after_the_load_is_none_and_one_is_not_three(self) -> None:
        seen = self.at({1.5: 64, 3.02: 0})
        assert unchecked("missing-connections", trial(seen)) == "the connections were counted at 1 of 3 instants"
        assert look("missing-connections", trial(self.at({1.5: 60, 3.02: 0}))) is not None

    def test_short_connections_come_and_go(self) -> None:
        assert look("missing-connections", trial(self.counted(1, 2, 3), load=load(keepalive=False))) is None

    def test_those_of_another_port_are_others(self) -> None:
        without = trial(without=("connections_established",))
        assert unchecked("missing-connections", without)
        assert unchecked("missing-connections", trial(target="http://10.0.0.1:9000/"))


class TestLittlesLaw:
    @pytest.mark.parametrize(("factor", "raised"), [(0.81, False), (0.79, True), (1.19, False), (1.21, True)])
    def test_either_way(self, factor: float, *, raised: bool) -> None:
        found = look("littles-law", trial(row={"latency_mean_s": factor * 64 / 50_000}))
        assert (found is not None) == raised
        if found is not None:
            assert (found.severity, found.metrics) == ("invalid", LOAD)
            assert ("hung" in found.means) == (factor < 1)

    @pytest.mark.parametrize(("step", "raised"), [(1e-5, True), (1e-3, False)])
    def test_a_mean_is_known_to_the_step_of_the_tool(self, step: float, *, raised: bool) -> None:
        """Ab's whole milliseconds: 1 ms may be anything around it."""
        assert (
            look("littles-law", trial(row={"latency_mean_s": 0.001, "latency_resolution_s": step})) is not None
        ) == raised

    def test_a_corrected_mean_is_not_that_of_the_requests(self) -> None:
        assert unchecked("littles-law", trial(row={"latency_corrected": True}))

    def test_connecting_is_a_part_of_the_cycle(self) -> None:
        short = load(keepalive=False)
        assert unchecked("littles-law", trial(load=short))
        covered = {"latency_covers": "connect+request"}
        assert look("littles-law", trial(load=short, row=covered)) is None

    def test_at_a_set_rate_connections_wait(self) -> None:
        assert look("littles-law", trial(load=load(rate=10.0), row={"rps": 10.0})) is None


class TestAcceptOverflow:
    def grown(self, metric: str, by: float) -> dict[Key, dict[float, float]]:
        return {(metric, "sut", None, None): {-0.01: 7.0, 3.05: 7.0 + by}}

    @pytest.mark.parametrize(
        "metric",
        [
            *("listen_overflows_total", "listen_drops_total", "req_queue_full_drops_total"),
            "req_queue_full_cookies_total",
        ],
    )
    def test_a_dropped_connection_of_64(self, metric: str) -> None:
        found = look("accept-overflow", trial(self.grown(metric, 1)))
        assert found is not None
        assert (found.severity, found.metrics) == ("invalid", LOAD)

    @pytest.mark.parametrize(("dropped", "severity"), [(0, None), (100, "suspect"), (101, "invalid")])
    def test_short_connections_by_their_share(self, dropped: int, severity: str | None) -> None:
        short = load(keepalive=False)
        found = look("accept-overflow", trial(self.grown("listen_drops_total", dropped), load=short))
        assert (found.severity if found else None) == severity

    def test_what_was_dropped_before_the_window_was_not_in_it(self) -> None:
        before: dict[Key, dict[float, float]] = {
            ("listen_drops_total", "sut", None, None): {-0.9: 0.0, -0.01: 90.0, 3.05: 90.0}
        }
        assert look("accept-overflow", trial(before)) is None

    @pytest.mark.parametrize(("depth", "raised"), [(510, False), (511, True)])
    def test_a_queue_seen_full(self, depth: int, *, raised: bool) -> None:
        found = look("accept-overflow", trial({("accept_queue", "sut", "app", "0.0.0.0:8080"): {1.0: depth}}))
        assert (found is not None) == raised
        assert found is None or found.severity == "suspect"


class TestPortsExhausted:
    @pytest.mark.parametrize(("waiting", "raised"), [(834, False), (836, True)])
    def test_time_wait_and_connections_against_the_range(self, waiting: int, *, raised: bool) -> None:
        sockets: dict[Key, dict[float, float]] = {("tcp_sockets", "load", None, "time_wait"): {1.0: waiting}}
        found = look("ports-exhausted", trial(sockets, load=load(keepalive=False)))
        assert (found is not None) == raised
        assert found is None or (found.severity, found.metrics) == ("invalid", LOAD)

    NARROW: ClassVar = {"load": {"sysctls": {"net.ipv4.ip_local_port_range": "10001\t10070"}}}

    def test_kept_connections_that_were_all_opened_need_no_more(self) -> None:
        """What waits is of the trials before."""
        assert look("ports-exhausted", trial(facts=self.NARROW)) is None
        assert look("ports-exhausted", trial(facts=self.NARROW, row={"errors_connect": 3})) is not None

    def test_an_unknown_range(self) -> None:
        short = load(keepalive=False)
        assert unchecked("ports-exhausted", trial(facts={"load": {"sysctls": {}}}, load=short))

    FULL: ClassVar[dict[Key, dict[float, float]]] = {("tcp_sockets", "load", None, "time_wait"): {1.0: 930.0}}
    SHORT: ClassVar = load(keepalive=False)
    PORTS: ClassVar = {"net.ipv4.ip_local_port_range": "10001 11000"}

    @pytest.mark.parametrize(("reuse", "failed", "raised"), [("0", 0, True), ("1", 0, False), ("1", 3, True)])
    def test_ports_that_are_used_again_are_taken_where_connects_failed(
        self, reuse: str, failed: int, *, raised: bool
    ) -> None:
        facts = {"load": {"sysctls": {**self.PORTS, "net.ipv4.tcp_tw_reuse": reuse}}}
        found = look("ports-exhausted", trial(self.FULL, facts=facts, load=self.SHORT, row={"errors_connect": failed}))
        assert (found is not None) == raised

    def test_connections_hold_their_ports_whatever_is_used_again(self) -> None:
        facts = {"load": {"sysctls": {**self.PORTS, "net.ipv4.tcp_tw_reuse": "1"}}}
        held: dict[Key, dict[float, float]] = {("tcp_sockets", "load", None, "in_use"): {1.0: 930}}
        assert look("ports-exhausted", trial(held, facts=facts, load=self.SHORT)) is not None
        silent = trial(held, facts=facts, load=self.SHORT, row={"errors_connect": None})
        assert "failed connects of load" in unchecked("ports-exhausted", silent)

    @pytest.mark.parametrize(("address", "failed", "raised"), [(1, 0, False), (1, 3, True), (2, 0, True)])
    def test_sockets_of_a_server_on_the_same_addresses_are_not_the_clients(
        self, address: int, failed: int, *, raised: bool
    ) -> None:
        facts = {
            host: {"interfaces": [{"name": "eth0", "addresses": [f"10.0.0.{last}"]}]}
            for host, last in (("sut", 1), ("load", address))
        }
        found = look("ports-exhausted", trial(self.FULL, facts=facts, load=self.SHORT, row={"errors_connect": failed}))
        assert (found is not None) == raised

    def test_sockets_on_the_servers_own_host_are_not_the_clients(self) -> None:
        beside = generator(host="sut")
        facts = {"sut": {"sysctls": self.PORTS}}
        sockets: dict[Key, dict[float, float]] = {
            ("tcp_sockets", "sut", None, state): {1.0: 930} for state in ("time_wait", "in_use")
        }
        assert look("ports-exhausted", trial(sockets, facts=facts, load=self.SHORT, generators=(beside,))) is None

    def test_how_many_waited_before_the_window_says_nothing_of_it(self) -> None:
        before: dict[Key, dict[float, float]] = {("tcp_sockets", "load", None, "time_wait"): {-0.01: 930}}
        assert unchecked("ports-exhausted", trial(before, load=self.SHORT))


class TestThrottled:
    @pytest.mark.parametrize(("steal", "raised"), [(0.019, False), (0.021, True)])
    def test_by_the_hypervisor(self, steal: float, *, raised: bool) -> None:
        found = look("throttled", trial(cores("sut", 0, user=0.9, steal=steal)))
        assert (found is not None) == raised
        assert found is None or (found.severity, found.metrics) == ("invalid", ALL)

    def test_stolen_from_a_core_of_somebody_else(self) -> None:
        assert look("throttled", trial(cores("sut", 1, user=0.6, steal=0.5))) is None

    @pytest.mark.parametrize(("share", "raised"), [(0.019, False), (0.021, True)])
    def test_by_a_quota(self, share: float, *, raised: bool) -> None:
        waited: dict[Key, dict[float, float]] = {
            ("cgroup_throttled_s_total", "sut", None, None): {-0.01: 0.0, 3.05: share * WINDOW_S}
        }
        assert (look("throttled", trial(waited)) is not None) == raised
        # What the scenario asks for holds in a group of its own: what is seen here is somebody else's nevertheless.
        asked = {"roles": {"sut": {"quota": 0.5}}}
        assert (look("throttled", trial(waited, scenario=asked)) is not None) == raised

    @pytest.mark.parametrize(("hertz", "raised"), [(2.38e9, False), (2.37e9, True)])
    def test_by_its_clock(self, hertz: float, *, raised: bool) -> None:
        found = look("throttled", trial({("cpu_frequency_hz", "sut", None, "0"): {1.0: hertz}}))
        assert (found is not None) == raised
        assert found is None or found.severity == "suspect"

    def test_by_its_clock_under_load_alone(self) -> None:
        """Before the load and after it the core has nothing to do."""
        idle = {-0.01: 1.2e9, 3.02: 1.2e9}
        assert look("throttled", trial({("cpu_frequency_hz", "sut", None, "0"): {**idle, 1.0: 2.6e9}})) is None
        said = unchecked("throttled", trial({("cpu_frequency_hz", "sut", None, "0"): idle}))
        assert said == "not known: the clock rate under load of sut"

    def test_an_idle_core_may_go_slower(self) -> None:
        slow: dict[Key, dict[float, float]] = {("cpu_frequency_hz", "load", None, "1"): {1.0: 1.2e9}}
        assert look("throttled", trial({**slow, **cores("load", 1, user=0.4)})) is None


class TestNoisyHost:
    @pytest.mark.parametrize(("foreign", "raised"), [(0.049, False), (0.051, True)])
    def test_time_that_nobody_of_the_trial_took(self, foreign: float, *, raised: bool) -> None:
        found = look("noisy-host", trial(cores("sut", 0, user=0.9 + foreign)))
        assert (found is not None) == raised
        assert found is None or (found.severity, found.metrics) == ("invalid", ALL)

    def test_interrupts_are_the_trials_own(self) -> None:
        assert look("noisy-host", trial(cores("sut", 0, user=0.9, softirq=0.1))) is None

    @pytest.mark.parametrize(("foreign", "raised"), [(0.03, False), (0.07, True)])
    def test_where_the_kernel_counts_interrupts_to_processes(self, foreign: float, *, raised: bool) -> None:
        """A full core with 30 % of interrupts, which the server's time has in it."""
        full = cores("sut", 0, user=0.7, softirq=0.3)
        assert (look("noisy-host", trial({**full, **self.took(1 - foreign)})) is not None) == raised

    def test_interrupts_may_come_while_a_core_idles(self) -> None:
        half = cores("sut", 0, user=0.4, softirq=0.3)
        assert look("noisy-host", trial({**half, **self.took(0.45)})) is None

    def took(self, share: float) -> dict[Key, dict[float, float]]:
        return {("cpu_s_total", "sut", "app", None): {-0.01: 0.0, 3.05: share * WINDOW_S}}

    def test_benchkits_own_agent_is_known(self) -> None:
        seen = cores("sut", 0, user=0.96)
        agent: dict[Key, dict[float, float]] = {("cpu_s_total", "sut", "agent", None): {-0.01: 0.0, 3.05: 0.12}}
        assert look("noisy-host", trial(seen)) is not None
        assert look("noisy-host", trial({**seen, **agent})) is None

    def test_benchkits_own_profiler_is_known(self) -> None:
        """It runs on the server's CPUs for as long as the profile takes, where perf is one; pprof is a part of the server."""
        seen = cores("sut", 0, user=1.0)

        def profiled(cpu_s: float | None) -> Evidence:
            perf = ProfileRecord(service="app", host="sut", profiler="perf", file="app.perf", cpu_s=cpu_s)
            return trial(seen, kind="profile", profiles=(perf,))

        assert look("noisy-host", profiled(None)) is not None
        assert look("noisy-host", profiled(0.1 * WINDOW_S)) is None
        assert look("noisy-host", profiled(0.04 * WINDOW_S)) is not None

    def test_processes_that_share_cores_are_taken_together(self) -> None:
        """On a shared lab any of them may have run on either core."""
        both = {"services": (service(cpus=(0, 1)),), "generators": (generator(cpus=(0, 1)),)}
        moved = {**cores("sut", 0, user=0.75), **cores("sut", 1, user=0.75)}
        assert look("noisy-host", trial(moved, **both)) is None  # type: ignore[arg-type] # fields of the record

    def wide(
        self, samples: Mapping[Key, Mapping[float, float]], took: float, *, of: int = 16, **fields: object
    ) -> Evidence:
        """A server host of many cores, idle but for what these samples have; its load host is another machine."""
        cpus = tuple(range(of))
        idle = {key: value for cpu in cpus for key, value in cores("sut", cpu).items()}
        facts: dict[str, dict[str, object]] = {"sut": {"cpus": cpus}, "load": {"boot_id": "another"}}
        services = (service(**{"cpus": cpus, **fields}),)
        return trial({**idle, **self.took(took), **samples}, facts=facts, services=services)

    def agent(self, share: float) -> dict[Key, dict[float, float]]:
        return {("cpu_s_total", "sut", "agent", None): {-0.01: 0.0, 3.05: share * WINDOW_S}}

    @pytest.mark.parametrize(("cpu", "raised"), [(9, False), (2, True)])
    def test_on_the_trials_own_cpus(self, cpu: int, *, raised: bool) -> None:
        """The agent may run on all of them, the server on four."""
        seen = {**cores("sut", 0, user=0.5), **cores("sut", cpu, user=0.2), **self.agent(0.01)}
        assert (look("noisy-host", self.wide(seen, 0.5, cpus=(0, 1, 2, 3))) is not None) == raised

    @pytest.mark.parametrize(("foreign", "raised"), [(0.08, False), (0.1, True)])
    def test_what_the_agent_took_may_have_been_taken_on_any_core(self, foreign: float, *, raised: bool) -> None:
        seen = {**cores("sut", 0, user=0.5 + foreign), **self.agent(0.04)}
        assert (look("noisy-host", self.wide(seen, 0.5, cpus=(0, 1))) is not None) == raised

    def test_an_agent_elsewhere_does_not_make_interrupts_the_processes_own(self) -> None:
        seen = {**cores("sut", 0, user=0.6, softirq=0.4), **self.agent(0.04)}
        assert look("noisy-host", self.wide(seen, 0.6, cpus=(0,))) is None

    @pytest.mark.parametrize(("server", "raised"), [(0.5, True), (0.95, False)])
    def test_a_full_core_beside_an_idle_one_where_interrupts_are_counted_to_processes(
        self, server: float, *, raised: bool
    ) -> None:
        """What is left of the full core somebody else took, interrupts and all."""
        seen = {**cores("sut", 0, user=0.5, softirq=0.5), **cores("sut", 1, user=0.3, softirq=0.2)}
        assert (look("noisy-host", self.wide(seen, server + 0.5, cpus=(0, 1))) is not None) == raised

    def test_steps_of_counters_are_not_work(self) -> None:
        """An idle core is as often said to have idled longer than the clock ran as shorter."""
        off: dict[Key, dict[float, float]] = {
            ("cpu_idle_s_total", "sut", None, str(cpu)): {-0.01: 0.0, 3.05: 3.06 + 0.01 * (-1) ** cpu}
            for cpu in range(32)
        }
        assert look("noisy-host", self.wide(off, 0.0, of=32)) is None

    @pytest.mark.parametrize(("foreign", "raised"), [(0.06, False), (0.07, True)])
    def test_what_hundreds_of_cores_did_is_known_to_their_steps(self, foreign: float, *, raised: bool) -> None:
        seen = self.wide(cores("sut", 5, user=foreign), 0.0, of=256)
        assert (look("noisy-host", seen) is not None) == raised

    def test_cores_that_nobody_watched_are_named_unless_others_are_enough(self) -> None:
        facts: dict[str, dict[str, object]] = {"load": {"boot_id": "another"}}
        elsewhere = (generator(cpus=(4, 5)),)
        assert unchecked("noisy-host", trial(facts=facts, generators=elsewhere)) == "not watched: CPU 4, 5 of host load"
        noisy = trial(cores("sut", 0, user=1.0), facts=facts, generators=elsewhere)
        assert look("noisy-host", noisy) is not None


class TestCold:
    def served(self, first: float, last: float) -> dict[Key, dict[float, float]]:
        """Requests at so many a second in the first and the last third, evenly between them in the second."""
        third, rates = WINDOW_S / 3, (first, (first + last) / 2, last)
        instants = (-0.01, third, 2 * third, WINDOW_S + 0.05)
        counts = (0.0, rates[0] * third, sum(rates[:2]) * third, sum(rates) * third)
        return {("requests_total", "sut", "app", "1"): dict(zip(instants, counts, strict=True))}

    @pytest.mark.parametrize("first", [0.8, 1.0, 1.25])
    def test_first_third_over_last(self, first: float) -> None:
        assert first_over_last(trial(self.served(first * 50_000, 50_000))) == pytest.approx(first, rel=0.01)

    @pytest.mark.parametrize(
        ("dearer", "ratio"), [(1.0, 0.8), (1.25**0.5, 0.8), (1.2, 0.96**2), (1.25, 1.0), (1.5, 1.0), (0.5, 0.8)]
    )
    def test_less_what_the_load_tool_felt_as_much(self, dearer: float, ratio: float) -> None:
        """At four fifths of its later rate the server was not slower where a request cost the load tool 5/4 of later.

        It was where that rose no further than the lower rate makes it.
        """
        third, cost_s = WINDOW_S / 3, 1e-5
        spent = (40_000 * third * cost_s * dearer, 45_000 * third * cost_s, 50_000 * third * cost_s)
        totals = dict(zip((third, 2 * third, WINDOW_S), itertools.accumulate(spent), strict=True))
        samples = self.served(40_000, 50_000) | {("cpu_s_total", "load", "generator-1", None): totals}
        assert first_over_last(trial(samples)) == pytest.approx(ratio, rel=0.02)

    def looks(
        self, host: str, core: int, first: float, last: float, each: int = LEAST_LOOKS
    ) -> dict[Key, dict[float, float]]:
        """How long a loop took on a core, so often in the first third of the window, and in the last."""
        starts = {0.05: first, 2 * WINDOW_S / 3 + 0.05: last}
        found = {start + 0.09 * n: loop * 1e-5 for start, loop in starts.items() for n in range(each)}
        return {("cpu_loop_s", host, None, str(core)): found}

    @pytest.mark.parametrize("slower", [0.7, 1.0, 1.6])
    def test_less_what_the_servers_cores_were_seen_to_do(self, slower: float) -> None:
        rate = 50_000 / slower**SPEEDS
        samples = self.served(rate, 50_000) | self.looks("sut", 0, slower, 1.0)
        assert first_over_last(trial(samples)) == pytest.approx(1.0, rel=0.01)
        assert first_over_last(trial(self.served(rate, 50_000))) == pytest.approx(rate / 50_000, rel=0.01)

    def test_a_cold_server_is_one_on_a_core_that_got_faster_too(self) -> None:
        samples = self.served(20_000, 50_000) | self.looks("sut", 0, 1.3, 1.0)
        assert first_over_last(trial(samples)) == pytest.approx(0.4 * 1.3**SPEEDS, rel=0.01)

    def test_cores_looked_at_too_seldom_or_of_others_say_nothing(self) -> None:
        others = self.looks("sut", 5, 1.6, 1.0) | self.looks("sut", 0, 1.6, 1.0, each=LEAST_LOOKS - 1)
        assert first_over_last(trial(self.served(40_000, 50_000) | others)) == pytest.approx(0.8, rel=0.01)

    def test_a_set_rate_does_not_go_by_how_fast_cores_are(self) -> None:
        samples = self.served(50_000, 50_000) | self.looks("sut", 0, 0.6, 1.0)
        assert first_over_last(trial(samples, load=load(rate=50_000.0))) == pytest.approx(1.0, rel=0.01)

    def test_a_load_tool_on_a_core_that_got_faster_was_not_slowed_by_the_server(self) -> None:
        """All that a request cost more in the first third is the load tool's own core's doing: the server was cold."""
        third, cost_s, dearer = WINDOW_S / 3, 1e-5, 1.25
        spent = (40_000 * third * cost_s * dearer, 45_000 * third * cost_s, 50_000 * third * cost_s)
        totals = dict(zip((third, 2 * third, WINDOW_S), itertools.accumulate(spent), strict=True))
        samples = self.served(40_000, 50_000) | {("cpu_s_total", "load", "generator-1", None): totals}
        samples |= self.looks("load", 1, dearer ** (1 / SPEEDS), 1.0)
        assert first_over_last(trial(samples)) == pytest.approx(0.8, rel=0.02)

    def test_a_window_of_two_seconds_has_no_thirds_of_seconds(self) -> None:
        short = trial(self.served(1, 2), generators=(generator(wall_s=2.9, cpu_s=1.0),))
        assert "shorter than 3 s" in unchecked("cold", short)
        assert first_over_last(short) is None

    def test_too_few_looks(self) -> None:
        seldom: dict[Key, dict[float, float]] = {("requests_total", "sut", "app", "1"): {-0.01: 0, 1.0: 9, 3.05: 10}}
        assert unchecked("cold", trial(seldom))
        assert first_over_last(trial(seldom)) is None

    def test_only_the_service_that_the_load_goes_to(self) -> None:
        front = service(name="front", backend="nginx")
        counted: dict[Key, dict[float, float]] = {
            ("requests_total", "sut", "front", "1"): {0.0: 0, 0.5: 1, 1.0: 2, 1.5: 3, 2.0: 4}
        }
        scenario = {"stacks": {"only": {"entry": "front"}}}
        cold_behind = {**self.served(1, 2), **counted}
        warm = trial(cold_behind, services=(service(), front), scenario=scenario)
        assert first_over_last(warm) == pytest.approx(1.0)

    def test_a_server_that_answers_nothing_has_no_ratio(self) -> None:
        assert first_over_last(trial(self.served(0, 0))) is None

    def test_one_that_answers_nothing_at_first_has_the_lowest(self) -> None:
        found = first_over_last(trial(self.served(0, 50_000)))
        assert found is not None
        assert 0 < found < 1e-3


class TestTooFewSamples:
    @pytest.mark.parametrize(("requests", "raised"), [(1000, False), (999, True)])
    def test_asked_for(self, requests: int, *, raised: bool) -> None:
        asked = frozenset({"latency_p99_s"})
        found = look("too-few-samples", trial(row={"requests": requests}, asked=asked))
        assert (found is not None) == raised
        assert found is None or (found.severity, found.metrics) == ("invalid", ("latency_p99_s",))

    def test_not_asked_for_is_no_alarm(self) -> None:
        assert look("too-few-samples", trial(row={"requests": 50})) is None
        assert look("too-few-samples", trial(row={"requests": None})) is None

    def test_a_tool_that_counts_no_requests(self) -> None:
        assert unchecked("too-few-samples", trial(row={"requests": None}, asked=frozenset({"latency_p99_s"})))


class TestServiceRestarted:
    @pytest.mark.parametrize(
        ("after", "raised"),
        [
            (((10, 100), (11, 100)), False),
            (((10, 100), (12, 170)), True),
            (((10, 100),), True),
            (((10, 100), (11, 170)), True),
        ],
    )
    def test_by_its_processes(self, after: tuple[tuple[int, int], ...], *, raised: bool) -> None:
        """A pid used again is another process."""
        one = service(pids_before=((10, 100), (11, 100)), pids_after=after)
        found = look("service-restarted", trial(services=(one,)))
        assert (found is not None) == raised
        assert found is None or (found.severity, found.metrics) == ("invalid", ALL)


class TestStalled:
    def sampled(self, *instants: float) -> dict[Key, dict[float, float]]:
        return {("load1", "sut", None, None): dict.fromkeys(instants, 1.0)}

    def stalled(self, interval_s: float, *instants: float) -> bool:
        watched = (watch("sut", interval_s=interval_s), watch("load"))
        without = tuple(set(trial().telemetry.metrics) - {"load1"})
        found = look("stalled", trial(self.sampled(*instants), watched=watched, without=without))
        assert found is None or (found.severity, found.metrics) == ("invalid", ALL)
        return found is not None

    def test_a_gap_in_the_window(self) -> None:
        assert not self.stalled(0.5, -0.01, 0.4, 1.8, 3.05)
        assert self.stalled(0.4, -0.01, 0.4, 1.8, 3.05)

    def test_a_gap_that_reaches_beyond_the_window(self) -> None:
        assert self.stalled(0.5, -0.01, 0.5, 1.0, 3.0)

    def test_a_gap_before_the_window_is_none_of_it(self) -> None:
        assert not self.stalled(0.4, -4.0, -0.01, 0.8, 1.6, 2.4, 3.05)

    def test_an_unwatched_host(self) -> None:
        assert unchecked("stalled", trial(watched=(watch("load"),))) == "not watched: sut"

    def test_a_host_whose_samples_are_lost(self) -> None:
        without = tuple(trial().telemetry.metrics)
        assert unchecked("stalled", trial(without=without)) == "not watched: load, sut"


class TestToolLimit:
    def test_heys_million(self) -> None:
        found = look("tool-limit", trial(notes={"hey-cap": "hey keeps 1,000,000 results and there were more"}))
        assert found is not None
        assert (found.severity, found.metrics) == ("invalid", LATENCIES)

    @pytest.mark.parametrize(("mean", "raised"), [(0.012, False), (None, True)])
    def test_times_below_the_step_of_the_tool(self, mean: float | None, *, raised: bool) -> None:
        siege = {"tool": "siege", "latency_mean_s": mean, "latency_resolution_s": 0.01}
        found = look("tool-limit", trial(row=siege))
        assert (found is not None) == raised
        assert found is None or (found.severity, found.metrics) == ("suspect", LATENCIES)

    @pytest.mark.parametrize(("users", "raised"), [(64, False), (60, True), (None, False)])
    def test_fewer_users_than_asked_for(self, users: int | None, *, raised: bool) -> None:
        siege = generator(result=LoadResult(tool="siege", connections=users))
        assert (look("tool-limit", trial(generators=(siege,))) is not None) == raised


def test_a_profiled_trial_is_no_measured_one() -> None:
    assert look("observed", trial()) is None
    found = look("observed", trial(kind="profile"))
    assert found is not None
    assert (found.severity, found.metrics) == ("invalid", ALL)
