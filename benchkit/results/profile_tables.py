"""From the profiles of a trial to rows: every function, and the share of each category. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from benchkit.errors import ParseError
from benchkit.models.profile import Profile
from benchkit.models.trial import ProfileRecord, TrialRecord

NO_PROFILE, NO_KERNEL = "no-profile", "profile-without-kernel"
PROFILE_NOTES = (NO_PROFILE, NO_KERNEL)
"""The codes of notes on profiles: why a service has none, and that one does not see the kernel."""


def profile_tables(record: TrialRecord, raw: Callable[[str], bytes]) -> dict[str, list[dict[str, Any]]]:
    """The rows of a trial in `profile`, `profile_share` and `notes`; `raw` gives a raw file's content.

    Kernel time within a system call counts as that call, so that programs with a profiler of their own, which sees no
    kernel, and those under perf stand side by side.
    """
    rows: dict[str, list[dict[str, Any]]] = {"profile": [], "profile_share": [], "notes": []}
    for each in record.profiles:
        profile, why_not = _profile(each, raw)
        where = f"{each.service} on {each.host}"
        if profile is None:
            message = f"{where} is not profiled: {why_not}"
            rows["notes"].append({"trial_id": record.trial_id, "code": NO_PROFILE, "message": message})
            continue
        if each.profiler == "perf" and not profile.has_kernel:
            message = f"{where}: perf may not see the kernel there, so that shares are of the time outside of it alone"
            rows["notes"].append({"trial_id": record.trial_id, "code": NO_KERNEL, "message": message})
        rows["profile"] += _functions(record.trial_id, each, profile)
        rows["profile_share"] += _shares(record.trial_id, each, profile)
    return rows


def _profile(record: ProfileRecord, raw: Callable[[str], bytes]) -> tuple[Profile | None, str | None]:
    """The profile, or why there is none."""
    from benchkit.profiles.profile_file import read_profile  # noqa: PLC0415 - protobuf, which most trials have no use for

    if record.file is None:
        return None, record.why_not
    try:
        profile = read_profile(raw(record.file))
    except ParseError as error:
        return None, f"{record.file}: {error}"
    if not sum(profile.values[profile.default_value]):
        return None, f"{record.file} has no samples: it did not run, or for too short a time"
    return profile, None


def _functions(trial_id: str, record: ProfileRecord, profile: Profile) -> Iterator[dict[str, Any]]:
    from benchkit.profiles.top import top  # noqa: PLC0415 - as above

    found = top(profile, least_share=0)
    for row in found.rows:
        yield {
            "trial_id": trial_id,
            "host": record.host,
            "service": record.service,
            "function": row.function,
            "flat_s": found.value_type.seconds(row.flat),
            "cum_s": found.value_type.seconds(row.cum),
            "flat_share": found.share(row.flat),
            "cum_share": found.share(row.cum),
        }


def _shares(trial_id: str, record: ProfileRecord, profile: Profile) -> Iterator[dict[str, Any]]:
    from benchkit.profiles.shares import shares  # noqa: PLC0415 - as above

    for category, share in shares(profile).categories.items():
        yield {"trial_id": trial_id, "service": record.service, "category": category, "share": share}
