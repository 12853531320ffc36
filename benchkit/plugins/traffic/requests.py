"""The requests of a log as traffic: classes with their shares, some paths of each, and the instants of arrival."""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from benchkit import units
from benchkit.models.load import MAX_CLASSES
from benchkit.models.request import MAX_BODY_BYTES, Traffic, TrafficRequest
from benchkit.plugins.traffic.cleaning import Cleaner
from benchkit.plugins.traffic.logs import HAR, Log, LoggedRequest

MANY_NAMES = 30
"""Different names at one place of a path beyond which they are taken for ids."""
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing on a server (RFC 9110, 9.2.1), as far as benchkit sends them."""

_ID = re.compile(
    r"[0-9]+|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?=.*[0-9])[0-9a-f]{8,}|(?=.*[0-9])[A-Za-z0-9_-]{12,}",
    re.IGNORECASE,
)


def traffic_of(log: Log, cleaner: Cleaner, source: str, *, paths: int) -> Traffic:
    """Return the traffic of a log, with at most `paths` different requests of each class.

    A class is a method and a path whose ids are `{}`. Of each class, requests at equal distances in the log are kept,
    so that frequent paths are kept more often.
    """
    targets = [cleaner.target(each.target) for each in log.requests]
    names = kinds_of([(each.method, target) for each, target in zip(log.requests, targets, strict=True)])
    cleaned = [
        replace(each, target=target, headers=cleaner.headers(each.headers), kind=kind)
        for each, target, kind in zip(log.requests, targets, names, strict=True)
    ]
    kinds = [kind for kind, _ in Counter(each.kind for each in cleaned).most_common(MAX_CLASSES)]
    kept = [each for each in cleaned if each.kind in set(kinds)]
    times = sorted(each.at_s for each in kept if each.at_s is not None)
    timed = len(times) == len(kept)
    if timed:
        kept.sort(key=lambda each: each.at_s or 0.0)
    by_kind: defaultdict[str, list[LoggedRequest]] = defaultdict(list)
    for each in kept:
        by_kind[each.kind].append(each)
    requests = [request for kind in kinds for request in _requests_of(kind, by_kind[kind], paths)]
    return Traffic(
        source=f"{source} ({log.form})",
        lines=len(kept),
        period_s=times[-1] - times[0] if timed else None,
        requests=tuple(requests),
        order=tuple(_order(kept, requests)),
        times=tuple(_times(times, is_whole=log.is_in_whole_seconds)) if timed else (),
        notes=tuple(_notes(log, cleaner, cleaned, kept, len(requests))),
    )


def kinds_of(requests: Sequence[tuple[str, str]]) -> list[str]:
    """Return the class of each request, given by method and target: `GET /items/{}?` for `GET /items/17?page=2`.

    A part of a path is an id by its form, or where its place has more than `MANY_NAMES` different names.
    """
    kinds: list[tuple[str, ...]] = [(method,) for method, _ in requests]
    remaining = [target.partition("?")[0].split("/")[1:] for _, target in requests]
    for depth in range(max(map(len, remaining), default=0)):
        names: defaultdict[tuple[str, ...], set[str]] = defaultdict(set)
        at_depth = [_without_id(parts[depth]) if depth < len(parts) else None for parts in remaining]
        for kind, name in zip(kinds, at_depth, strict=True):
            if name is not None:
                names[kind].add(name)
        kinds = [
            kind if name is None else (*kind, name if len(names[kind]) <= MANY_NAMES else _without_name(name))
            for kind, name in zip(kinds, at_depth, strict=True)
        ]
    return [
        f"{kind[0]} /{'/'.join(kind[1:])}{'?' if '?' in target else ''}"
        for kind, (_, target) in zip(kinds, requests, strict=True)
    ]


def _without_id(name: str) -> str:
    return ".".join("{}" if _ID.fullmatch(part) else part for part in name.split("."))


def _without_name(name: str) -> str:
    _, dot, suffix = name.rpartition(".")
    return f"{{}}{dot}{suffix}" if dot else "{}"


def _requests_of(kind: str, logged: Sequence[LoggedRequest], paths: int) -> Iterator[TrafficRequest]:
    chosen = [logged[place * len(logged) // paths] for place in range(paths)] if len(logged) > paths else list(logged)
    statuses = Counter(each.status for each in logged if each.status is not None)
    status = statuses.most_common(1)[0][0] if statuses else None
    answered = [each.response_bytes for each in logged if each.status == status and each.response_bytes is not None]
    sizes = [each.request_bytes for each in logged if each.request_bytes]
    alike: Counter[tuple[str, tuple[tuple[str, str], ...], int | None]] = Counter()
    for each in chosen:
        has_body = each.method not in SAFE and bool(sizes)
        body = min(each.request_bytes or max(sizes), MAX_BODY_BYTES) if has_body else None
        alike[each.target, tuple(each.headers.items()), body] += 1
    for (target, headers, body), number in alike.items():
        yield TrafficRequest(
            kind=kind,
            method=logged[0].method,
            path=target,
            headers=dict(headers),
            body_bytes=body,
            weight=len(logged) * number / len(chosen),
            size=(min(answered), max(answered)) if answered else None,
            status=status if status is not None and 200 <= status < 600 else None,  # noqa: PLR2004 - final answers
        )


def _order(kept: Sequence[LoggedRequest], requests: Sequence[TrafficRequest]) -> Iterator[int]:
    """Yield the places of requests: of those with the path of the log's in turns, else of those of its class."""
    places: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
    for place, request in enumerate(requests):
        places[request.kind, request.path].append(place)
        places[request.kind,].append(place)
    turn: Counter[tuple[str, ...]] = Counter()
    for each in kept:
        key = (each.kind, each.target) if (each.kind, each.target) in places else (each.kind,)
        yield places[key][turn[key] % len(places[key])]
        turn[key] += 1


def _times(times: Sequence[float], *, is_whole: bool) -> Iterator[float]:
    """Yield instants from the first; those in one whole second are spread over it at random, always in the same way."""
    spread = random.Random(0)  # noqa: S311 - instants, not secrets
    instants = sorted(at + spread.random() for at in times) if is_whole else times
    return (round(at - instants[0], 6) for at in instants)


def _notes(
    log: Log, cleaner: Cleaner, cleaned: Sequence[LoggedRequest], kept: Sequence[LoggedRequest], sent: int
) -> Iterator[str]:
    if log.unread:
        yield f"{units.counted(log.unread, 'line')} had no request in this format"
    if missing := len(cleaned) - len(kept):
        yield f"{units.share(missing / len(cleaned))} of the requests are of rarer classes, and omitted"
    yield from (f"removed, {what}: {number:,}" for what, number in sorted(cleaner.removed.items()) if number)
    distinct = len({(each.kind, each.target) for each in kept})
    if distinct > sent:
        yield f"{sent} of {distinct:,} different requests are sent: a cache answers more of them than in the log"
    yield from log.all_notes()
    yield from _unknown(kept, log.form, is_whole=log.is_in_whole_seconds)


def _unknown(requests: Sequence[LoggedRequest], form: str, *, is_whole: bool) -> Iterator[str]:
    headers = sorted({name for each in requests for name in each.headers})
    if not headers:
        yield "the log has no headers of requests: they are sent without"
    elif form != HAR:
        yield f"the log has only these headers: {', '.join(headers)}; requests are sent without others"
    with_content = [each for each in requests if each.method not in SAFE]
    if with_content and not any(each.request_bytes for each in with_content):
        yield f"the log has no sizes of bodies: {units.counted(len(with_content), 'request')} are sent without one"
    elif with_content:
        yield "the log has no bodies: theirs have the right size and one letter"
    if is_whole and all(each.at_s is not None for each in requests):
        yield "times are whole seconds: requests of one second are spread over it at random"
