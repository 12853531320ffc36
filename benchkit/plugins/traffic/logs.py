"""Requests of access logs by a table of named formats, of HAR files, and of lists of targets.

Lines of JSON and W3C extended logs (IIS, CloudFront) are read by the names that servers commonly give to fields. Caddy
nests them below `request`. HAR is version 1.2 of the format that browsers save.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from benchkit import units
from benchkit.errors import InputError

HAR = "HAR"
"""Form of HAR files, which have all headers of a request."""
PROBED = 50
"""Lines at the beginning of a log by which its format is recognised."""

_QUOTED = r'(?:[^"\\]|\\.)*'
_COMMON = rf'\S+ \S+ \S+ \[(?P<time>[^\]]*)\] "(?P<request>{_QUOTED})" (?P<status>\S+)'
_AGENT = rf'"(?P<referer>{_QUOTED})" "(?P<user_agent>{_QUOTED})"'
FORMATS: Mapping[str, str] = {
    "combined": rf"{_COMMON} (?P<bytes>\S+) {_AGENT}",
    "vhost_combined": rf"(?P<host>[^:\s]+):\d+ {_COMMON} \S+ {_AGENT}",
    "common": rf"{_COMMON} (?P<bytes>\S+)",
    "haproxy": (
        r"(?:.* )?\S+:\d+ \[(?P<time>[^\]]+)\] \S+ \S+ [\d/+-]+ (?P<status>\d{3}) \+?\d+ \S+ \S+ \S+ [\d/+]+ [\d/]+ "
        r'(?:\{[^}]*\} )*"(?P<request>[^"]*)"'
    ),
    "envoy": (
        r'\[(?P<time>[^\]]+)\] "(?P<request>[^"]*)" (?P<status>\d{3}) \S+ (?:\S+ \S+ )?(?P<length>\d+) (?P<bytes>\d+) '
        r'\d+ \S+ "[^"]*" "(?P<user_agent>[^"]*)" "[^"]*" "(?P<host>[^"]*)" "[^"]*"'
    ),
}
"""Regular expressions of lines by the names of formats, in the order in which they are tried.

Groups are named as in `NAMES`; other groups are headers. Sizes that include the headers of responses are not read."""

NAMES: Mapping[str, tuple[str, ...]] = {
    "request": ("request", "request_line"),
    "method": ("method", "request_method", "http_method", "verb", "RequestMethod", "cs-method"),
    "target": ("request_uri", "uri", "url", "path", "target", "RequestPath", "cs-uri-stem"),
    "query": ("cs-uri-query",),
    "status": ("status", "status_code", "response_status", "code", "DownstreamStatus", "sc-status"),
    "bytes": ("size", "body_bytes_sent", "bytes", "response_size", "DownstreamContentSize"),
    "length": ("bytes_read", "content_length", "request_size", "RequestContentSize"),
    "whole_length": ("request_length",),
    "time": ("StartUTC", "ts", "time", "timestamp", "@timestamp", "time_iso8601", "time_local", "msec"),
    "host": ("RequestHost", "host", "http_host", "server_name", "cs-host", "cs(Host)"),
    "user_agent": ("http_user_agent", "user_agent", "request_User-Agent", "cs(User-Agent)"),
}
"""Names of fields in lines of JSON and in W3C extended logs; of several in a line, the first of these is read."""

_LINE = re.compile(r"([A-Z]{1,20}) (\S+)(?: (HTTP/[0-9.]+))?")
_TARGET = re.compile(r"(?:([A-Z]{3,7}) )?(https?://\S+)(?: ([A-Z]{3,7}))?(?: (?:<(\S+)|\S.*))?")
"""A target of vegeta (`GET URL`), or a line of siege's list (`URL`, `URL POST <file`)."""
_COMPOSE = re.compile(r"[\w.-]{1,80} *\| ")
"""Prefix of a line by docker compose."""


@dataclass(frozen=True)
class LoggedRequest:
    """One request of a log; None for what the log does not state."""

    method: str
    target: str
    """Path and query."""
    at_s: float | None = None
    """Instant in seconds since 1970."""
    status: int | None = None
    response_bytes: int | None = None
    """Size of the response's body as it was sent."""
    request_bytes: int | None = None
    """Size of its body."""
    headers: Mapping[str, str] = field(default_factory=dict)
    kind: str = ""
    """Its class, once that is known."""


@dataclass
class Log:
    """The requests of a log, and how it was read."""

    form: str
    """Name of its format."""
    requests: list[LoggedRequest] = field(default_factory=list)
    unread: int = 0
    """Lines that have no request in this format."""
    is_in_whole_seconds: bool = True
    hosts: Counter[str] = field(default_factory=Counter)
    """Requests by the host that they were sent to, where the log states it."""
    left_out: Counter[str] = field(default_factory=Counter)
    """Requests that were omitted, by the reason."""
    other_hosts: Counter[str] = field(default_factory=Counter)
    """Requests that were omitted as they were sent to another host, by that host."""
    notes: dict[str, None] = field(default_factory=dict)

    def all_notes(self) -> Iterator[str]:
        """Yield what a user should know of this log."""
        yield from self.notes
        if len(self.hosts) > 1:
            named = ", ".join(f"{host} ({number:,})" for host, number in self.hosts.most_common(5))
            yield f"requests to {len(self.hosts)} hosts are sent to one: {named}; --host NAME takes those of one"
        if self.other_hosts:
            named = units.first_of([*self.other_hosts], 3)
            yield f"omitted, to {units.counted(len(self.other_hosts), 'other host')} ({named}): {self.other_hosts.total():,}"
        yield from (f"omitted, {reason}: {number:,}" for reason, number in self.left_out.most_common())


def read_log(data: bytes, form: str | None = None, host: str | None = None) -> Log:
    """Return the requests of a log in the order of its lines; gzip is unpacked.

    `form` is a name of `FORMATS` or a regular expression with such groups; None: the format is recognised. `host` takes
    the requests to one host alone; of a HAR file, None takes that of its first entry. Raises InputError for text
    without a request.
    """
    lines = _lines(data)
    if not lines:
        raise InputError("the log is empty")
    if form is not None:
        log = _read_formatted(lines, form, host)
    elif lines[0].lstrip().startswith("{"):
        log = _read_har("\n".join(lines), host) or _read_json(lines, host)
    elif any(line.startswith("#Fields:") for line in lines[:PROBED]):
        log = _read_w3c(lines, host)
    elif _TARGET.fullmatch(next((line for line in lines if line[0] != "#"), "")):
        log = _read_targets(lines, host)
    else:
        matches = {name: sum(_is_in(line, pattern) for line in lines[:PROBED]) for name, pattern in FORMATS.items()}
        log = _read_formatted(lines, max(matches, key=matches.__getitem__), host)
    if not log.requests:
        raise InputError(
            f"no line of {log.unread + log.left_out.total() + log.other_hosts.total()} has a request in the format {log.form!r}",
            hint="--format takes a regular expression of a line, with groups such as (?P<request>…)",
        )
    return log


def _lines(data: bytes) -> list[str]:
    try:
        text = (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode("utf-8", errors="replace")
    except (OSError, EOFError, zlib.error) as error:
        raise InputError("the compressed log is damaged", why=str(error)) from None
    return [line.rstrip("\r") for line in text.split("\n") if line.strip()]


def _is_in(line: str, pattern: str) -> bool:
    return re.match(pattern, _COMPOSE.sub("", line, count=1)) is not None


def _read_formatted(lines: Iterable[str], form: str, host: str | None) -> Log:
    try:
        pattern = re.compile(FORMATS.get(form, form))
    except re.error as error:
        raise InputError("not a regular expression", where=f"--format {form}", why=str(error)) from None
    if not {"request", "target"} & pattern.groupindex.keys():
        known = f"it is one of {', '.join(FORMATS)}, or has a group (?P<request>…) or (?P<target>…)"
        raise InputError(f"the format {form!r} has no request", hint=known)
    log = Log(form)
    for line in lines:
        match = pattern.match(_COMPOSE.sub("", line, count=1))
        found = {} if match is None else match.groupdict()
        headers = {name.replace("_", "-").title(): text for name, text in found.items() if text and name not in NAMES}
        _add(log, found, headers, host)
    return log


def _read_json(lines: Iterable[str], host: str | None) -> Log:
    log = Log("JSON lines")
    for line in lines:
        try:
            fields = json.loads(_COMPOSE.sub("", line, count=1))
        except (ValueError, RecursionError):
            fields = None
        if not isinstance(fields, dict):
            log.unread += 1
            continue
        nested = fields.get("request")
        if isinstance(nested, dict):  # Caddy
            log.form = "Caddy"
            fields |= {name: nested.get(name) for name in ("method", "uri", "headers", "host")}
            del fields["request"]
        stated = fields.get("headers") or fields.get("request_headers")
        named = stated.items() if isinstance(stated, Mapping) else ()
        single = {str(name): value[0] if isinstance(value, list) and value else value for name, value in named}
        _add(log, _named(fields), {name: value for name, value in single.items() if isinstance(value, str)}, host)
    return log


def _read_w3c(lines: Iterable[str], host: str | None) -> Log:
    log, columns = Log("W3C extended log"), list[str]()
    for line in lines:
        if line.startswith("#"):
            columns = line.split()[1:] if line.startswith("#Fields:") else columns
            continue
        values = dict(zip(columns, line.split("\t") if "\t" in line else line.split(" "), strict=False))
        found = _named({name: value for name, value in values.items() if value != "-"})
        if "query" in found:
            found["target"] = f"{found.get('target', '')}?{found['query']}"
        _add(log, {**found, "time": f"{values.get('date')}T{values.get('time')}Z"}, {}, host)
    return log


def _named(fields: Mapping[str, Any]) -> dict[str, str]:
    return {
        meaning: str(fields[name])
        for meaning, names in NAMES.items()
        if (name := next((each for each in names if isinstance(fields.get(each), str | int | float)), None))
    }


def _read_targets(lines: Iterable[str], host: str | None) -> Log:
    log = Log("list of targets")
    targets: list[tuple[dict[str, str], dict[str, str]]] = []
    for line in lines:
        name, colon, value = line.partition(":")
        body = line[1:] if line.startswith("@") else None
        if match := _TARGET.fullmatch(line):
            targets.append(({"method": match[1] or match[3] or "GET", "target": match[2]}, {}))
            body = match[4]
        elif colon and targets and re.fullmatch(r"[A-Za-z0-9-]+", name):
            targets[-1][1][name] = value.strip()
        elif body is None and not line.startswith("#"):
            log.unread += 1
        if body:
            log.notes[f"the body file {body} is not read: its request is sent without a body"] = None
    for fields, headers in targets:
        _add(log, fields, headers, host)
    return log


def _read_har(text: str, host: str | None) -> Log | None:
    try:
        document = json.loads(text)
        entries: list[Any] = document["log"]["entries"]
        of_page = urlsplit(str(entries[0]["request"]["url"])).netloc if entries and host is None else host
    except (ValueError, RecursionError, KeyError, TypeError, IndexError):
        return None
    log = Log(HAR)
    for entry in entries:
        try:
            request, response = entry["request"], entry["response"]
            fields = {
                "method": request["method"],
                "target": request["url"],
                "status": str(response["status"]),
                "time": entry["startedDateTime"],
                "length": str(request.get("bodySize", -1)),
                "bytes": str(response.get("bodySize", -1)),
            }
            headers = {header["name"]: header["value"] for header in request["headers"]}
        except (KeyError, TypeError, AttributeError):
            log.unread += 1
            continue
        scheme = str(request["url"]).partition(":")[0]
        if scheme not in {"http", "https"}:
            log.left_out[f"{scheme}: addresses"] += 1
        elif response["status"] == 0:
            log.left_out["without an answer"] += 1
        else:
            _add(log, fields, headers, of_page)
    return log


def _add(log: Log, fields: Mapping[str, str | None], headers: Mapping[str, str], host: str | None) -> None:
    """Add a request, unless its fields have none, or it went to another host."""
    method, target, of_host = fields.get("method"), fields.get("target"), fields.get("host")
    if line := _LINE.fullmatch(fields.get("request") or ""):
        method, target = line[1], line[2]
    if target is not None and "://" in target:
        parts = urlsplit(target)
        of_host, target = parts.netloc, (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    is_target = target is not None and re.fullmatch(r"/[!#-\[\]-~]*", target)  # no quote, no backslash (RFC 3986, 2)
    if target is None or not is_target or not re.fullmatch(r"[A-Z]{1,20}", method or "GET"):
        log.unread += 1
        return
    of_host = None if of_host in (None, "", "-") else of_host
    if host is not None and of_host != host:
        log.other_hosts[of_host or "unknown"] += 1
        return
    if of_host is not None:
        log.hosts[of_host] += 1
    at_s, is_whole = _instant(fields.get("time"))
    log.is_in_whole_seconds &= is_whole
    if fields.get("whole_length"):
        log.notes["the log has lengths of whole requests, with their headers: sizes of bodies are not known"] = None
    agent = fields.get("user_agent")
    kept = {name: text for name, text in headers.items() if text not in ("", "-")}
    log.requests.append(
        LoggedRequest(
            method=method or "GET",
            target=target,
            at_s=at_s,
            status=_count(fields.get("status")),
            response_bytes=_count(fields.get("bytes")),
            request_bytes=_count(fields.get("length")),
            headers={**kept, "User-Agent": agent} if agent and agent != "-" else kept,
        )
    )


def _instant(text: str | None) -> tuple[float | None, bool]:
    """Return a time in seconds since 1970, and True if it is a whole number of them."""
    if text is None:
        return None, True
    if re.fullmatch(r"[0-9]{9,13}(\.[0-9]+)?", text):
        number = float(text)
        at_s = number / 1000 if number > 1e11 else number  # noqa: PLR2004 - of the year 5138, else milliseconds
        return at_s, at_s.is_integer()
    of_logs = f"%d/%b/%Y:%H:%M:%S{'.%f' if '.' in text else ''}{' %z' if ' ' in text else ''}"
    try:
        moment = datetime.strptime(text, of_logs) if "/" in text else datetime.fromisoformat(text)  # noqa: DTZ007
    except ValueError:
        return None, True
    at_s = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    return at_s, at_s.is_integer()


def _count(text: str | None) -> int | None:
    return int(text) if text is not None and re.fullmatch(r"[0-9]{1,15}", text) else None
