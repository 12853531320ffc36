"""The profiles of trials: as rows (every function, and the share of each category), and merged into one profile."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from benchkit.errors import InputError, ParseError
from benchkit.models.profile import Profile
from benchkit.models.rows import Columns, NoteRow, ProfileRow, ProfileShareRow
from benchkit.models.trial import ProfileRecord, TrialRecord
from benchkit.store.run_folder import RunFolder

NO_PROFILE, NO_KERNEL = "no-profile", "profile-without-kernel"
PROFILE_NOTES = (NO_PROFILE, NO_KERNEL)
"""Codes of notes on profiles: a service without a profile, and a profile without the kernel."""


@dataclass(frozen=True, eq=False)
class ProfileTables:
    """The rows of a trial in `profile`, `profile_share` and `notes`."""

    functions: Columns[ProfileRow]
    shares: tuple[ProfileShareRow, ...]
    notes: tuple[NoteRow, ...]


def read_profiles(record: TrialRecord, raw: Callable[[str], bytes]) -> ProfileTables:
    """Return the rows of a trial's profiles; `raw` returns the content of a raw file by its name.

    Kernel time within a system call counts as that call: profiles that do not record the kernel are then comparable
    with perf's.
    """
    functions: list[ProfileRow] = []
    shares: list[ProfileShareRow] = []
    notes: list[NoteRow] = []
    for each in record.profiles:
        where = f"{each.service} on {each.host}"
        try:
            profile = _read(each, raw)
        except ParseError as error:
            message = f"{where} has no profile: {error}"
            notes.append(NoteRow(trial_id=record.trial_id, code=NO_PROFILE, message=message))
            continue
        if each.profiler == "perf" and not profile.has_kernel:
            message = f"{where}: perf may not record the kernel there, so shares are of the time in user mode"
            notes.append(NoteRow(trial_id=record.trial_id, code=NO_KERNEL, message=message))
        functions += _functions(record.trial_id, each, profile)
        shares += _shares(record.trial_id, each, profile)
    return ProfileTables(Columns.of_rows(ProfileRow, functions), tuple(shares), tuple(notes))


def _read(record: ProfileRecord, raw: Callable[[str], bytes]) -> Profile:
    """Read a profile. Raises ParseError, with the reason, where there is none."""
    from benchkit.profiles.profile_file import read_profile  # noqa: PLC0415 - protobuf, which most trials have no use for

    if record.file is None:
        raise ParseError(record.why_not or "not recorded")
    try:
        profile = read_profile(raw(record.file))
    except ParseError as error:
        raise ParseError(f"{record.file}: {error}") from None
    if not sum(profile.values[profile.default_value]):
        raise ParseError(f"{record.file} has no samples: the service was idle, or the profile too short")
    return profile


def _functions(trial_id: str, record: ProfileRecord, profile: Profile) -> Iterator[ProfileRow]:
    from benchkit.profiles.top import top  # noqa: PLC0415 - as above

    table = top(profile, least_share=0)
    for row in table.rows:
        yield ProfileRow(
            trial_id=trial_id,
            host=record.host,
            service=record.service,
            function=row.function,
            flat_s=table.value_type.seconds(row.flat),
            cum_s=table.value_type.seconds(row.cum),
            flat_share=table.share(row.flat),
            cum_share=table.share(row.cum),
        )


def _shares(trial_id: str, record: ProfileRecord, profile: Profile) -> Iterator[ProfileShareRow]:
    from benchkit.profiles.shares import shares  # noqa: PLC0415 - as above

    for category, share in shares(profile).categories.items():
        yield ProfileShareRow(trial_id=trial_id, service=record.service, category=category, share=share)


def read_merged_profile(run: RunFolder, records: Iterable[TrialRecord], service: str) -> Profile:
    """Merge the profiles of a service in these trials of a run.

    Raises InputError if there is none or a raw file is missing, ParseError for an unreadable profile and for profiles
    with different value types.
    """
    from benchkit.profiles.merge import merge_profiles  # noqa: PLC0415 - protobuf, which most runs have no use for

    profiles = [
        _read_merged(run, record.trial_id, each.file)
        for record in records
        for each in record.profiles
        if each.service == service and each.file is not None
    ]
    if not profiles:
        raise InputError(f"no profile of service {service!r}", where=run.run_id)
    return merge_profiles(profiles)


def _read_merged(run: RunFolder, trial_id: str, file: str) -> Profile:
    from benchkit.profiles.profile_file import read_profile  # noqa: PLC0415 - as above

    try:
        return read_profile(run.raw_file(trial_id, file))
    except ParseError as error:
        raise ParseError(error.what, where=f"{trial_id}/{file}", why=error.why, hint=error.hint) from None
