"""From where on a check doubts a trial: all thresholds in one place, each with its source.

A scenario lays its own over them (`thresholds: {server_cpu: 0.5}`). The manifest of a run records all of them, so that
a stored run is judged by what it was run under. Shares are of one.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from benchkit.models.base import Frozen
from benchkit.models.run import Manifest

Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Thresholds(Frozen):
    """The thresholds of all checks."""

    generator_cpu: Share = Field(
        default=0.90,
        description="of the CPU that a load tool, or its host, may use. A queue at 90 % use is ten times as long as the "
        "work in it (M/M/1: Kleinrock, Queueing Systems, 1975, ch. 3): from there on times are the generator's. 1: never, "
        "where the load tool only asks and its host does the work that is measured",
    )
    link: Share = Field(
        default=0.90,
        description="of the link's rate. A full one carries 94 % of it as payload of TCP (1,448 of 1,538 bytes of a "
        "frame on Ethernet, preamble and gap included), and queues before that",
    )
    server_cpu: Share = Field(
        default=0.60,
        description="of the CPUs that the stack may use, below which the server was not the limit. Seen on two-core labs: "
        "a server that is the limit fills its core, one that waits for its generator half of it",
    )
    errors: Share = Field(
        default=0.001,
        description="of the requests, above which figures are void; any failure makes them suspect. A service level of "
        "three nines (Beyer et al., Site Reliability Engineering, 2016, ch. 4)",
    )
    bytes_per_request: Share = Field(
        default=0.01,
        description="by which the bytes of an answer under load may differ from those of the probe. Smaller than the "
        "effect on a rate that six blocks on a lab can show",
    )
    connections: Share = Field(
        default=0.95, description="of the connections asked for that must be established at every look"
    )
    littles_law: Share = Field(
        default=0.20,
        description="by which rate times mean latency may differ from the connections (Little, A proof for the queuing "
        "formula L = λW, Operations Research 9, 1961). Room for what a tool does between two requests",
    )
    dropped_connections: Share = Field(
        default=0.001,
        description="of the connections opened, dropped or answered with a cookie, above which figures are void; any "
        "makes them suspect. The same as for errors: each costs its client a second (RFC 6298: initial timeout)",
    )
    ports: Share = Field(
        default=0.90, description="of the client's port range in TIME_WAIT and in use, where searching gets long"
    )
    steal: Share = Field(
        default=0.02,
        description="of the CPU time, taken by the hypervisor. Less than the differences that runs are made to show",
    )
    throttled: Share = Field(
        default=0.02, description="of the window, for which a control group withheld CPU time that nobody asked it to"
    )
    frequency: Share = Field(default=0.95, description="of the nominal clock rate, below which a host was slowed down")
    foreign_cores: Positive = Field(
        default=0.05, description="cores' worth of CPU time on the trial's CPUs that none of its processes took"
    )
    cold: Share = Field(
        default=0.10,
        description="by which the server's rate in the first third of the window may be below that in the last, over all "
        "trials of a cell",
    )
    samples_beyond: Positive = Field(
        default=10,
        description="requests beyond a percentile for it to be one: p needs 10 / (1 - p). Ten of them are known to a "
        "third (a count of n is known to the square root of n)",
    )
    gap_intervals: Positive = Field(
        default=3, description="sampling intervals without a sample, beyond which the host stood still"
    )
    plateau_rps: Share = Field(
        default=0.02, description="within which the rates of three or more servers are one rate, not several"
    )
    plateau_cpu: Share = Field(
        default=0.10, description="by which the CPU use of the servers on a plateau must differ to be telling"
    )
    spread: Positive = Field(
        default=0.10,
        description="standard deviation of a cell's log-rates over six blocks; over more or fewer, the one that leaves the "
        "interval of a ratio as wide (t on log-ratios: 16 % to either side). Six blocks of such trials cannot show a "
        "difference of 20 % (power 80 %)",
    )


def thresholds_of(manifest: Manifest) -> Thresholds:
    """The thresholds that a run is judged by: those it was run under, today's where it has none of that name."""
    known = {name: value for name, value in manifest.thresholds.items() if name in Thresholds.model_fields}
    return Thresholds.model_validate(known)
