"""Thresholds of all checks of trials, each with its source.

A scenario overrides some of them (`thresholds: {server_cpu: 0.5}`). The manifest of a run records all of them, so that
a stored run is judged by the thresholds that it was run with. Shares are of one.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from benchkit.models.base import Frozen
from benchkit.models.run import Manifest

Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]

SEND_LAG = 0.10
"""Default of `send_lag`, and the share from which on the interval of a ratio of latencies includes the lag."""


class Thresholds(Frozen):
    """The thresholds of all checks."""

    generator_cpu: Share = Field(
        default=0.90,
        description="share of the CPU time available to a load tool or its host. At 90 % use, a queue is ten times as "
        "long as the work in it (M/M/1: Kleinrock, Queueing Systems, 1975, ch. 3), so that latencies are the "
        "generator's. 1 is never exceeded: set it for load tools whose own host does the work that is measured",
    )
    link: Share = Field(
        default=0.90,
        description="share of the link's rate. A saturated link carries 94 % of its rate as TCP payload (1,448 of "
        "1,538 bytes of an Ethernet frame, including preamble and gap). Queues build up before that",
    )
    server_cpu: Share = Field(
        default=0.60,
        description="share of the CPUs that the stack may use, below which the server was not the limit. On two-core labs, "
        "a server that is the limit saturates its core, and one that waits for its generator uses half of it",
    )
    errors: Share = Field(
        default=0.001,
        description="share of failed requests that makes figures unusable; any failure makes them suspect. The "
        "default is a service level of three nines (Beyer et al., Site Reliability Engineering, 2016, ch. 4)",
    )
    bytes_per_request: Share = Field(
        default=0.01,
        description="relative difference in bytes between a response under load and the probe's. The default is below "
        "the effects on a rate that six blocks on a lab can show",
    )
    answer_size: Annotated[float, Field(ge=1, allow_inf_nan=False)] = Field(
        default=2.0,
        description="factor between the sizes of two bodies up to which they are of the same kind. Rows, names and numbers "
        "that vary stay within it; an error page, a listing or an empty list in place of a result does not. The sizes are "
        "stated with a ratio, whose difference they can explain in part",
    )
    resumed_handshakes: Share = Field(
        default=0.01,
        description="share of TLS handshakes that may resume a session where full ones are wanted. A resumed one saves most "
        "of a handshake, so that 1 % of them changes the mean cost by less than 1 %",
    )
    connections: Share = Field(
        default=0.95, description="share of the requested connections that must be established in every sample"
    )
    littles_law: Share = Field(
        default=0.20,
        description="relative difference between rate times mean latency and the number of connections (Little, A "
        "proof for the queuing formula L = λW, Operations Research 9, 1961). The default leaves room for the tool's "
        "own work between requests",
    )
    rate_held: Share = Field(
        default=0.99, description="share of the target rate that must be achieved: within 1 % it is the rate asked for"
    )
    send_lag: Share = Field(
        default=SEND_LAG,
        description="99th percentile of the time by which requests are sent late, as a share of the latency's. Times "
        "count from when requests were due, so that this share of them is the generator's",
    )
    dropped_connections: Share = Field(
        default=0.001,
        description="share of opened connections that were dropped or answered with a SYN cookie, above which figures are "
        "unusable; any makes them suspect. As for errors: each costs its client a second (RFC 6298: initial timeout)",
    )
    ports: Share = Field(
        default=0.90,
        description="share of the client's port range in use or in TIME_WAIT, above which finding a free port is slow",
    )
    steal: Share = Field(
        default=0.02,
        description="share of the CPU time taken by the hypervisor. The default is below the differences that runs "
        "are meant to show",
    )
    throttled: Share = Field(
        default=0.02,
        description="share of the window during which a control group that benchkit did not set up withheld CPU time",
    )
    foreign_cores: Positive = Field(
        default=0.05, description="CPU time, in cores, that other processes used on the CPUs of the trial"
    )
    cold: Share = Field(
        default=0.10,
        description="share by which the server's rate may be lower in the window's first third than in its last, over "
        "all trials of a cell",
    )
    samples_beyond: Positive = Field(
        default=10,
        description="requests needed beyond a percentile p, hence 10 / (1 - p) in all. A count of ten has a standard error "
        "of a third (a count n has one of the square root of n)",
    )
    gap_intervals: Positive = Field(
        default=3, description="sampling intervals without a sample, above which the host was stalled"
    )
    plateau_rps: Share = Field(
        default=0.02, description="relative difference below which the rates of three or more servers count as equal"
    )
    plateau_cpu: Share = Field(
        default=0.10,
        description="difference in CPU use between servers on a plateau, above which their limit is not the CPU",
    )
    unequal: Positive = Field(
        default=0.10,
        description="CPU time that a disturbance left to a cell of a sliced block, relative to the others. A larger "
        "difference is reported. Random order cancels such differences over blocks: in simulations with recorded "
        "noise, intervals that include all of them keep their coverage",
    )
    neighbour_cpu: Share = Field(
        default=0.01,
        description="share of the CPU time of a cell's servers that idle servers of its sliced block use in its "
        "slices, and its difference between cells. The default is half of the 2 % that the design is meant to show",
    )
    carry_over: Share = Field(
        default=0.05,
        description="change of a cell's rate after a slice of another cell, compared with after a slice of its own. "
        "At most a quarter of the slices of two cells follow their own, so that half of this reaches the ratio",
    )
    slice_answers: Positive = Field(
        default=20,
        description="answers in a slice, for each connection in closed loops. Connections open within a tenth of a "
        "slice: with fewer answers, the first ones come later than that",
    )
    spread: Positive = Field(
        default=0.10,
        description="standard deviation of a cell's log-rates over six blocks. For another number of blocks, the value "
        "that gives a ratio's interval the same width (t on log-ratios: 16 % to either side). With more variance, six "
        "blocks cannot show a difference of 20 % (power 80 %)",
    )


def thresholds_of(manifest: Manifest) -> Thresholds:
    """Return the thresholds of a stored run, and the present default of those that it did not record."""
    known = {name: value for name, value in manifest.thresholds.items() if name in Thresholds.model_fields}
    return Thresholds.model_validate(known)
