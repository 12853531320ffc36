"""The rows of all tables: each table is one dataclass, and each column is one field of it.

From these derive the Arrow schemas (`benchkit.store.parquet_files`), the metrics (`benchkit.models.metrics`) and the
documentation of the columns. The partition keys `scenario` and `run_id` stand only in the path of a file. To add a
column, add a field; to add a table, add a class.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import datetime
from functools import cache
from typing import Annotated, Any, ClassVar, TypeAlias, TypeVar, dataclass_transform, get_type_hints

from benchkit import units
from benchkit.models.columns import Column, Metric, duration, failures, percentile, rate, share

Text: TypeAlias = str | None
Count: TypeAlias = int | None
Real: TypeAlias = float | None
"""Types of columns that may be null."""


TABLES: dict[str, type[Row]] = {}
"""The row model of each table, by the name of the table."""


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Row:
    """Base of all rows: a subclass is a frozen dataclass, and a table of the name that it states."""

    TABLE: ClassVar[str]
    """Name of the table."""

    def __init_subclass__(cls, table: str) -> None:
        """Make the class a dataclass, and register its table."""
        cls.TABLE = table
        TABLES[table] = dataclass(frozen=True, kw_only=True)(cls)


class TrialRow(Row, table="trials"):
    """A trial."""

    cell_id: Annotated[str, Column("cell of the trial")]
    trial_id: Annotated[str, Column("id, unique in the store")]
    block: Annotated[int, Column("repetition of all cells, from 1")]
    position: Annotated[int, Column("position in the block, from 1")]
    kind: Annotated[
        str, Column("measure, control, profile, trace, calibrate, probe; split: its block was interrupted and repeated")
    ]
    started_at: Annotated[datetime | None, Column("start of the trial")] = None
    duration_s: Annotated[Real, duration("measured window", "length of the measured window", better=None)] = None
    tool: Annotated[Text, Column("load tool")] = None
    connections: Annotated[Count, Column("connections of all generators")] = None
    rate_requested: Annotated[Real, Column("target rate; null: as fast as answers come", unit="req/s")] = None
    rate_achieved: Annotated[Real, rate("achieved rate", "requests answered per second under a target rate")] = None
    send_lag_p99_s: Annotated[
        Real,
        duration("p99 send lag", "time within which 99 % of the requests were sent after they were due"),
    ] = None
    capacity_rps: Annotated[Real, rate("capacity", "highest rate that keeps the objective of `load.capacity`")] = None
    capacity_low: Annotated[Real, Column("low end of its 95 % interval", unit="req/s")] = None
    capacity_high: Annotated[
        Real, Column("high end; null: no probe failed by the server, and the capacity may be higher", unit="req/s")
    ] = None
    overload_goodput_rps: Annotated[
        Real, rate("goodput under overload", "requests per second answered without an error during the load's shape")
    ] = None
    overload_error_share: Annotated[
        Real, share("share of errors under overload", "share of failed requests during the shape", better="lower")
    ] = None
    recovery_s: Annotated[
        Real,
        duration(
            "recovery time",
            "time from the end of the shape until every second keeps the objective again; null: not in the window",
        ),
    ] = None
    requests: Annotated[
        Count, Metric("completed requests", unit="requests", title="requests", better="higher", format=units.count)
    ] = None
    rps: Annotated[Real, rate("RPS", "requests per second")] = None
    bytes_total: Annotated[Real, Metric("bytes received", unit="B", title="bytes", better=None, format=units.size)] = (
        None
    )
    bytes_per_s: Annotated[
        Real,
        Metric(
            "bytes received per second", unit="B/s", title="bytes per second", better="higher", format=units.bytes_per_s
        ),
    ] = None
    latency_mean_s: Annotated[Real, duration("mean latency", "mean response time")] = None
    latency_p50_s: Annotated[Real, percentile(50)] = None
    latency_p90_s: Annotated[Real, percentile(90)] = None
    latency_p99_s: Annotated[Real, percentile(99)] = None
    latency_p999_s: Annotated[Real, percentile(99.9)] = None
    latency_p9999_s: Annotated[Real, percentile(99.99)] = None
    latency_max_s: Annotated[Real, duration("longest latency", "longest response time")] = None
    connect_mean_s: Annotated[Real, duration("mean connect time", "mean time to open a connection (ab, h2load)")] = None
    processing_mean_s: Annotated[
        Real, duration("mean time once connected", "mean response time without connecting (ab's Processing)")
    ] = None
    first_byte_mean_s: Annotated[
        Real,
        duration("mean time to first byte", "ab: from sending the request; h2load: from opening the connection"),
    ] = None
    latency_covers: Annotated[Text, Column("request, or connect+request where times include connecting")] = None
    latency_corrected: Annotated[bool | None, Column("true: corrected for coordinated omission")] = None
    latency_from: Annotated[Text, Column("instant from which times count: sent, or due at the target rate")] = None
    latency_resolution_s: Annotated[Real, Column("step in which the tool states times", unit="sec")] = None
    errors_connect: Annotated[Count, failures("failed connects", "connections that failed")] = None
    errors_read: Annotated[Count, failures("read errors", "reads that failed")] = None
    errors_write: Annotated[Count, failures("write errors", "writes that failed")] = None
    errors_timeout: Annotated[Count, failures("timeouts", "requests that timed out")] = None
    non_2xx: Annotated[Count, failures("answers other than 2xx", "responses with a status other than 2xx")] = None
    server_cpu_s_per_request: Annotated[
        Real, duration("server CPU per request", "CPU time of all services per request", unit="sec/req")
    ] = None
    generator_cpu_s_per_request: Annotated[
        Real,
        duration("load tool CPU per request", "CPU time of the load tool's processes per request", unit="sec/req"),
    ] = None
    server_memory_bytes: Annotated[
        Real,
        Metric(
            "largest resident memory in the window, over all services; shared pages count for each process",
            unit="B",
            title="server memory",
            better="lower",
            format=units.size,
        ),
    ] = None
    main_process_cpu_s_per_request: Annotated[
        Real,
        duration(
            "CPU of main processes per request",
            "CPU time of the first process of each service per request: Node's primary, nginx's master",
            unit="sec/req",
        ),
    ] = None
    server_switches_per_request: Annotated[
        Real,
        Metric(
            "context switches of all services per request, voluntary and forced",
            unit="1/req",
            title="context switches per request",
            better="lower",
            format=units.ratio,
        ),
    ] = None
    goroutine_wait_mean_s: Annotated[
        Real, duration("mean wait of goroutines", "mean time for which runnable goroutines waited for a thread")
    ] = None
    probe_status: Annotated[Count, Column("status of the probe's response; of several requests, the highest")] = None
    probe_header_bytes: Annotated[Count, Column("size of its header; of several, the sum", unit="B")] = None
    probe_body_bytes: Annotated[Count, Column("size of its body; of several, the sum", unit="B")] = None
    probe_body_sha256: Annotated[Text, Column("SHA-256 of its body; of several, of their digests")] = None
    probe_media_type: Annotated[Text, Column("media types of its body; null: not all state one")] = None
    probe_again_sha256: Annotated[Text, Column("SHA-256 of the body in the second probe before the load")] = None
    probe_during_sha256: Annotated[Text, Column("the same in the middle of the window; null: none")] = None
    probe_after_sha256: Annotated[Text, Column("the same after the window")] = None
    protocol: Annotated[Text, Column("protocol of the probe's response: http1, https1, h2, h2c, h3")] = None
    tls_version: Annotated[Text, Column("its version of TLS; null: no TLS")] = None
    cipher: Annotated[Text, Column("cipher suite of the load, by OpenSSL's name; null: no TLS, or unknown")] = None
    resumed_share: Annotated[
        Real, share("resumed handshakes", "share of the TLS handshakes in the window that resumed a session")
    ] = None
    handshakes_per_s: Annotated[
        Real, rate("handshakes per second", "TLS handshakes per second, full and resumed", unit="1/s")
    ] = None
    server_cpu_s_per_handshake: Annotated[
        Real,
        duration(
            "server CPU per handshake",
            "CPU time of all services per TLS handshake with its request; null where connections are kept",
            unit="sec/handshake",
        ),
    ] = None
    rate_first_over_last: Annotated[
        Real,
        Metric(
            "request rate in the first third of the window relative to the last third",
            unit="ratio",
            title="rate in the first third over the last",
            better=None,
            format=units.ratio,
        ),
    ] = None
    server_loop_s: Annotated[
        Real,
        duration(
            "a small loop on the server's cores",
            "CPU time of a small fixed loop on the cores of the server: how slow they are",
            better=None,
        ),
    ] = None
    slices: Annotated[Count, Column("slices of its window; null: the window is one piece")] = None
    start_spread_s: Annotated[
        Real, Column("time between the first and the last start of a load tool process; null: one process", unit="sec")
    ] = None
    start_uncertainty_s: Annotated[
        Real, Column("its largest error, by the clocks of the load hosts; null: one host", unit="sec")
    ] = None
    foreign_share: Annotated[Real, Column("share of the CPU time of its cores that other processes used")] = None
    stolen_share: Annotated[Real, Column("share of the CPU time of its cores that the hypervisor withheld")] = None
    withheld_share: Annotated[
        Real, Column("share of the window in which a quota that is not the scenario's withheld CPU time")
    ] = None
    other_program: Annotated[Text, Column("busiest program outside the run, with its pid")] = None
    other_program_cores: Annotated[Real, Column("CPU time that it used per second", unit="cores")] = None
    neighbour_share: Annotated[
        Real, Column("share of the CPU time of its cores that servers of other cells used in its slices")
    ] = None
    verdict: Annotated[Text, Column("valid, suspect, invalid; null: not judged")] = None
    overhead_s: Annotated[
        Real, duration("overhead of a trial", "time of the trial besides the load tool's warm-up and window")
    ] = None


class VerdictRow(Row, table="verdicts"):
    """A finding against a trial."""

    trial_id: Annotated[str, Column("trial")]
    check: Annotated[str, Column("code of the check")]
    severity: Annotated[str, Column("suspect or invalid")]
    metrics: Annotated[tuple[str, ...], Column("columns of `trials` that it invalidates")]
    seen: Annotated[str, Column("observed value")]
    threshold: Annotated[str, Column("threshold of the check")]
    text: Annotated[str, Column("sentences: observed value, meaning, advice")]
    scope: Annotated[str, Column("trial: by itself; run: in comparison with the run's other trials")]


class UncheckedRow(Row, table="unchecked"):
    """A check that was skipped for a trial."""

    trial_id: Annotated[str, Column("trial")]
    check: Annotated[str, Column("code of the check")]
    why: Annotated[str, Column("missing evidence")]
    scope: Annotated[str, Column("trial or run, as in `verdicts`")]


class TelemetryRow(Row, table="telemetry"):
    """A sample of a metric (`benchkit.models.telemetry`)."""

    trial_id: Annotated[str, Column("trial")]
    host: Annotated[str, Column("host")]
    role: Annotated[str, Column("roles of the host that the sample is about, with commas between them")]
    service: Annotated[Text, Column("service; null: the host as a whole")]
    instance: Annotated[Text, Column("core, interface, socket, pid; null: all of them")]
    t_s: Annotated[float, Column("time from the start of the measured window; negative before it", unit="sec")]
    metric: Annotated[str, Column("name of the metric")]
    unit: Annotated[str, Column("unit of the value")]
    value: Annotated[float, Column("value; counters start at 0")]


class ProfileRow(Row, table="profile"):
    """A function in a profile."""

    trial_id: Annotated[str, Column("trial")]
    host: Annotated[str, Column("host")]
    service: Annotated[str, Column("service")]
    function: Annotated[str, Column("function")]
    flat_s: Annotated[Real, Column("time in the function itself", unit="sec")]
    cum_s: Annotated[Real, Column("time in the function and its callees", unit="sec")]
    flat_share: Annotated[float, Column("flat_s as a share of the profile")]
    cum_share: Annotated[float, Column("cum_s as a share of the profile")]


class ProfileShareRow(Row, table="profile_share"):
    """A category in a profile."""

    trial_id: Annotated[str, Column("trial")]
    service: Annotated[str, Column("service")]
    category: Annotated[str, Column("category (`benchkit.models.profile`)")]
    share: Annotated[float, Column("share of the profile")]


class TraceRow(Row, table="trace"):
    """A system call, or what threads wait for, in a trace."""

    trial_id: Annotated[str, Column("trial")]
    host: Annotated[str, Column("host")]
    service: Annotated[str, Column("service")]
    level: Annotated[str, Column("system calls or waiting")]
    name: Annotated[str, Column("name of the system call, or what threads wait for")]
    value: Annotated[float, Column("calls, or seconds that all threads spent off the CPU, in the traced time")]
    traced_s: Annotated[float, Column("traced time", unit="sec")]


class LatencyRow(Row, table="latency"):
    """A histogram bucket of a trial."""

    trial_id: Annotated[str, Column("trial")]
    series: Annotated[str, Column("raw, or corrected for coordinated omission")]
    low_s: Annotated[float, Column("lowest value that the bucket counts", unit="sec")]
    high_s: Annotated[float, Column("highest value that the bucket counts", unit="sec")]
    count: Annotated[int, Column("requests in the bucket")]


class ClassRow(Row, table="classes"):
    """A class of requests in a trial, of loads with several classes and a tool that counts them."""

    trial_id: Annotated[str, Column("trial")]
    request_class: Annotated[str, Column("class: method and path without ids, or the scenario's name of it")]
    weight: Annotated[float, Column("share of the class in the load as it is stated", unit="share")]
    requests: Annotated[int, Column("requests with a response", unit="requests")]
    errors: Annotated[int, Column("requests without one", unit="requests")]
    other_statuses: Annotated[
        int,
        Column("responses with a status other than expected; without an expectation: other than 2xx", unit="requests"),
    ]
    other_sizes: Annotated[
        Count, Column("responses with a size other than expected; null: any size is", unit="requests")
    ]
    size_low: Annotated[Count, Column("fewest bytes of a response's body", unit="bytes")]
    size_high: Annotated[Count, Column("most bytes of a response's body", unit="bytes")]
    latency_mean_s: Annotated[Real, Column("mean response time", unit="sec")]
    latency_p50_s: Annotated[Real, Column("median response time", unit="sec")]
    latency_p99_s: Annotated[Real, Column("99th percentile of the response time", unit="sec")]


class SliceRow(Row, table="slices"):
    """A slice of a trial, in a sliced block; null without telemetry, or as far as the load tool states no figure."""

    trial_id: Annotated[str, Column("trial")]
    slice: Annotated[int, Column("number of the slice and of its round in the block, from 1")]
    place: Annotated[int, Column("place in the round, from 1")]
    started_s: Annotated[float, Column("start of its window, counted from the block's first window", unit="sec")]
    duration_s: Annotated[float, Column("length of its window, by the load tool or as planned", unit="sec")]
    late_s: Annotated[float, Column("largest delay of a generator's start", unit="sec")]
    requests: Annotated[Count, Column("completed requests", unit="requests")] = None
    rps: Annotated[Real, Column("requests per second", unit="req/s")] = None
    latency_p50_s: Annotated[Real, Column("median response time", unit="sec")] = None
    latency_p99_s: Annotated[Real, Column("99th percentile of the response time", unit="sec")] = None
    server_cpu_s: Annotated[Real, Column("CPU time of the trial's services", unit="sec")] = None
    neighbour_cpu_s: Annotated[Real, Column("CPU time of the services of the block's other cells", unit="sec")] = None
    generator_cpu_s: Annotated[Real, Column("CPU time of the generators", unit="sec")] = None
    server_loop_s: Annotated[Real, Column("CPU time of a small fixed loop on the servers' CPUs", unit="sec")] = None
    time_wait: Annotated[Count, Column("sockets in TIME_WAIT on its services' hosts at its start")] = None


class LoadCurveRow(Row, table="load_curve"):
    """A number of connections of a load curve, which a cell has before the first block; null: unknown."""

    trial_id: Annotated[str, Column("trial")]
    connections: Annotated[int, Column("open connections, each with one request at a time")]
    duration_s: Annotated[float, Column("length of its window", unit="sec")]
    rps: Annotated[float, Column("answers per second, without the refused ones", unit="req/s")]
    refused: Annotated[Real, Column("share of answers other than 2xx and 3xx", unit="share")]
    failed: Annotated[Real, Column("share of requests without an answer", unit="share")]
    in_flight: Annotated[Real, Column("requests in flight, as a mean: answers per second times their mean time")] = None
    accept_queue: Annotated[Count, Column("connections that may wait until the server accepts them (Send-Q)")] = None
    latency_p50_s: Annotated[Real, Column("median response time", unit="sec")]
    latency_p99_s: Annotated[Real, Column("99th percentile of the response time", unit="sec")]
    latency_stdev_s: Annotated[Real, Column("standard deviation of the response time", unit="sec")] = None
    server_cores: Annotated[Real, Column("CPU seconds per second of the services")]
    server_cpu: Annotated[Real, Column("share of its CPU time that the busiest service used", unit="share")]
    generator_cpu: Annotated[Real, Column("share of its CPU time that the busiest generator used", unit="share")]
    link: Annotated[Real, Column("share of the rate of the slowest known link, by payload", unit="share")]


class SeriesRow(Row, table="series"):
    """A second of a trial as the load tool saw it, of tools that state when requests began and ended."""

    trial_id: Annotated[str, Column("trial")]
    t_s: Annotated[float, Column("start of the second, from the first request", unit="sec")]
    rps: Annotated[float, Column("requests that ended in it; the last second of a run is rarely whole", unit="req/s")]
    in_flight: Annotated[int, Column("requests without an answer at its end", unit="requests")]
    errors: Annotated[
        int,
        Column(
            "failed requests and answers with a status below 200 or above 399 in it; from hey, only such answers",
            unit="requests",
        ),
    ]
    latency_p50_s: Annotated[Real, Column("median of the times that ended in it", unit="sec")]
    latency_p99_s: Annotated[Real, Column("their 99th percentile", unit="sec")]


class NoteRow(Row, table="notes"):
    """A note on a trial: a defect of a tool that its output shows, or a measurement that is missing."""

    trial_id: Annotated[str, Column("trial")]
    code: Annotated[str, Column("code of the note")]
    message: Annotated[str, Column("message")]


class FactorRow(Row, table="factors"):
    """A level of a cell."""

    cell_id: Annotated[str, Column("cell")]
    factor: Annotated[str, Column("factor")]
    level: Annotated[str, Column("level as text")]
    level_num: Annotated[Real, Column("level as a number; null: it is not a number")]


class ComponentRow(Row, table="components"):
    """A part of the difference between a cell and its baseline, or of a cell without one (`comparison.components`)."""

    cell_id: Annotated[str, Column("cell")]
    baseline_id: Annotated[Text, Column("cell that it is compared with; null: none")] = None
    level: Annotated[
        str,
        Column(
            "rate, cores: logarithms that add up to the log ratio of rates, or of cores used. "
            "service, mode, category: parts of the CPU time per request. "
            "answer: of the mean time of an answer at a held rate. "
            "system calls, waiting: of traced trials"
        ),
    ]
    service: Annotated[Text, Column("service, or host; null: all of them")]
    component: Annotated[str, Column("name of the part; `all` without a service is the sum of the level")]
    unit: Annotated[str, Column("unit of the value")]
    value: Annotated[float, Column("mean of the cell over blocks")]
    baseline_value: Annotated[Real, Column("mean of the baseline over the same blocks")] = None
    difference: Annotated[Real, Column("their difference, of logarithms at the levels rate and cores")] = None
    low: Annotated[
        Real,
        Column("lower end of the interval of the difference, or of a value without one; null: too few blocks"),
    ]
    high: Annotated[Real, Column("upper end of it")]
    blocks: Annotated[int, Column("blocks with both cells")]


class HostRow(Row, table="hosts"):
    """A fact of a host."""

    host: Annotated[str, Column("host")]
    role: Annotated[str, Column("one of its roles")]
    at: Annotated[str, Column("stage of the run: start, block n, tuned, restored, end")]
    fact: Annotated[str, Column("name of the fact; nested facts have dotted names")]
    value: Annotated[Text, Column("value as text")]


@cache
def columns_of(table: str) -> tuple[Column, ...]:
    """Return the columns of a table, in order."""
    hints = get_type_hints(TABLES[table], include_extras=True)
    names = [field.name for field in fields(TABLES[table])]  # type: ignore[arg-type] # every row is a dataclass
    return tuple(replace(hints[name].__metadata__[0], name=name) for name in names)


@cache
def column_names(table: str) -> tuple[str, ...]:
    """Return the names of the columns of a table, in order."""
    return tuple(column.name for column in columns_of(table))


def column_types(table: str) -> Mapping[str, Any]:
    """Return the type of each column of a table, by its name."""
    hints = get_type_hints(TABLES[table])
    return {name: hints[name] for name in column_names(table)}


RowT = TypeVar("RowT", bound=Row)
