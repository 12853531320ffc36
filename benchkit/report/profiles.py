"""What the figures and tables of profiles are made of."""

from __future__ import annotations

from benchkit.analysis.scheduling import ServiceProfile, service_profiles
from benchkit.report.view import RunView


def profiled(run: RunView) -> tuple[ServiceProfile, ...]:
    """The services of a run that were profiled; none where the run has no profiles."""
    if run.profile_shares.empty:
        return ()
    return service_profiles(run.data, run.profile_shares, run.profiles, run.telemetry)
