"""The summary of an audit as Markdown: what contradicts itself in each test, which ranks the noise decides. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from benchkit import units
from benchkit.plugins.foreign.checks import AuditFinding
from benchkit.plugins.foreign.published import PublishedResult
from benchkit.plugins.foreign.table_checks import groups_of, rank

RANKS = "rank-noise"
OF_TABLES = {RANKS, "plateau", "whole-seconds", "unstated-streams"}
"""Checks whose findings are of a table, not of each of its rows."""
COPIED = "-is-mean"
_SHOWN = 3
"""Examples of a check that are quoted."""


def summarise(results: Sequence[PublishedResult], findings: Sequence[AuditFinding], noise: float | None) -> str:
    """Return tables of the tests and of the checks; `noise` is the spread of repetitions as a share of the rate."""
    copied = {label for each in findings if each.check.endswith(COPIED) for label in each.results}
    invalid = {
        label
        for each in findings
        if each.severity == "invalid" and not each.check.endswith(COPIED)
        for label in each.results
    }
    careful = {label for each in findings if each.check not in OF_TABLES for label in each.results} - invalid - copied
    known = "" if noise is None else f" Repetitions spread by {units.share(noise)}."
    total = (
        f"{units.counted(len(results), 'row')}: {len(invalid)} contradict themselves or measure no server, {len(copied)} have "
        f"a percentile that is a copy, {len(careful)} more are to be read with care.{known}"
    )
    lines = [
        total,
        "",
        "| test | connections | rows | contradictions | copies | with care | neighbours within the noise | like the first |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
        *(_test_row(group, (invalid, copied, careful), noise) for group in groups_of(results)),
        "",
        "| check | severity | rows | examples |",
        "|---|---|---:|---|",
        *_check_rows(findings),
    ]
    return "\n".join(lines)


def _test_row(group: Sequence[PublishedResult], kinds: Sequence[set[str]], noise: float | None) -> str:
    first, ranking = group[0], rank(group, noise)
    ranks = ("", "") if isinstance(ranking, str) else (f"{ranking.equal} of {ranking.pairs}", str(ranking.tied))
    connections = "" if first.connections is None else units.count(first.connections)
    counts = (str(sum(each.label in kind for each in group)) for kind in kinds)
    return f"| {' | '.join((first.test or 'all', connections, str(len(group)), *counts, *ranks))} |"


def _check_rows(findings: Sequence[AuditFinding]) -> Iterator[str]:
    by_check: defaultdict[tuple[str, str], list[AuditFinding]] = defaultdict(list)
    for finding in findings:
        if finding.check != RANKS:
            by_check[finding.check, finding.severity].append(finding)
    sizes = Counter({key: len({label for each in found for label in each.results}) for key, found in by_check.items()})
    for key, rows in sizes.most_common():
        found = by_check[key]
        step = max(1, len(found) // _SHOWN)
        examples = "<br>".join(f"{_name(each)}: {each.text}" for each in found[::step][:_SHOWN])
        yield f"| `{key[0]}` | {key[1]} | {rows} | {examples.replace('|', '/')} |"


def _name(finding: AuditFinding) -> str:
    more = len(finding.results) - 1
    return finding.results[0] + (f" and {more} more" if more else "")
