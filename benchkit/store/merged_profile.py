"""The profiles of several trials merged into one, read from their raw files."""

from __future__ import annotations

from collections.abc import Iterable

from benchkit.errors import InputError, ParseError
from benchkit.models.profile import Profile
from benchkit.models.trial import TrialRecord
from benchkit.store.store import RunFolder


def read_merged_profile(run: RunFolder, records: Iterable[TrialRecord], service: str) -> Profile:
    """Merge the profiles of a service in these trials of a run.

    Raises InputError if there is none or a raw file is missing, ParseError for an unreadable profile and for profiles
    with different value types.
    """
    from benchkit.profiles.merge import merge_profiles  # noqa: PLC0415 - protobuf, which most runs have no use for

    profiles = [
        _read(run, record.trial_id, each.file)
        for record in records
        for each in record.profiles
        if each.service == service and each.file is not None
    ]
    if not profiles:
        raise InputError(f"no profile of service {service!r}", where=run.run_id)
    return merge_profiles(profiles)


def _read(run: RunFolder, trial_id: str, file: str) -> Profile:
    from benchkit.profiles.profile_file import read_profile  # noqa: PLC0415 - as above

    try:
        return read_profile(run.raw_file(trial_id, file))
    except ParseError as error:
        raise ParseError(error.what, where=f"{trial_id}/{file}", why=error.why, hint=error.hint) from None
