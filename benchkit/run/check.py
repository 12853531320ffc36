"""Verification of the runs of a store, and their repair: journals and tables are rebuilt from raw files and judged."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Literal

from benchkit.errors import InputError
from benchkit.run.rebuild import rebuild_tables
from benchkit.store.checksums import update_checksums
from benchkit.store.layout import manifest_path
from benchkit.store.run_folder import RunFolder
from benchkit.store.store import Store
from benchkit.store.verification import Damage, restore_journal, verify_run
from benchkit.units import counted

logger = logging.getLogger(__name__)


_LEFTOVER_ADVICE = "an interrupted pull or removal left it: pull the run again, or delete the folder"


@dataclass(frozen=True)
class CheckedRun:
    """The result of verifying a run, and of repairing it where that was asked for."""

    run_id: str
    status: Literal["intact", "repaired", "damaged", "in use"]
    damages: tuple[Damage, ...] = ()
    """Damages that are left."""
    repaired: tuple[Damage, ...] = ()
    checksums: int | None = None
    """Number of checksums verified; None for a run without."""

    @property
    def summary(self) -> str:
        """One line of text."""
        if self.status == "in use":
            return "not checked: a benchkit process writes to it"
        verified = (
            "it has no checksums, so its files were only read"
            if self.checksums is None
            else f"{counted(self.checksums, 'checksum')} verified"
        )
        repaired = f"; repaired: {', '.join(each.file for each in self.repaired)}" if self.repaired else ""
        return f"{self.status}: {verified}{repaired}"


def check_store(store: Store, run: str | None, *, repair: bool) -> list[CheckedRun]:
    """Verify one run, or all, also those whose manifest cannot be read. Raises InputError for an unknown run."""
    if run is not None:
        return [_check(store, store.run(run), repair=repair)]
    readable, unreadable = store.survey()
    leftovers = store.leftovers()
    checked = [_check(store, each, repair=repair) for each, _ in readable]
    for run_id, error in unreadable.items():
        what = ": ".join(filter(None, (error.what, error.why)))
        damage = Damage(manifest_path(run_id), what, is_repairable=False)
        checked.append(CheckedRun(run_id, "damaged", damages=(damage,)))
    for folder in leftovers:
        path = folder.relative_to(store.path).as_posix()
        damage = Damage(path, "has no manifest, and is no run", is_repairable=False, advice=_LEFTOVER_ADVICE)
        checked.append(CheckedRun(folder.name, "damaged", damages=(damage,)))
    return checked


def _check(store: Store, run: RunFolder, *, repair: bool) -> CheckedRun:
    if not repair:
        if run.is_locked():
            return CheckedRun(run.run_id, "in use")
        with store.files.unverified(run.run_id) as folder:
            stored = Store(folder)
            found = verify_run(stored, stored.folder(run.run_id))
        return CheckedRun(run.run_id, "damaged" if found.damages else "intact", found.damages, (), found.checksums)
    with run.try_lock() as is_ours:
        if not is_ours:
            return CheckedRun(run.run_id, "in use")
        found = verify_run(store, run)
        if any(damage.is_repairable for damage in found.damages):
            _repair(store, run)
        after = verify_run(store, run)
    left = {damage.file for damage in after.damages}
    repaired = tuple(damage for damage in found.damages if damage.file not in left)
    status: Literal["intact", "repaired", "damaged"] = (
        "damaged" if after.damages else "repaired" if repaired else "intact"
    )
    return CheckedRun(run.run_id, status, after.damages, repaired, after.checksums)


def _repair(store: Store, run: RunFolder) -> None:
    try:
        restore_journal(run)
        rebuilt = rebuild_tables(store, run, keep_damaged=True)
    except InputError as error:  # such as a damaged manifest: the verification below names it
        logger.info("%s: not repaired: %s", run.run_id, error)
        return
    for trial_id, damage in rebuilt.damaged.items():
        logger.info("trial %s: %s", trial_id, damage)
    update_checksums(store, run, with_journal=True)
