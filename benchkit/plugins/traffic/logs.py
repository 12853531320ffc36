"""Requests of access logs by a table of named formats, of HAR files, and of lists of targets.

Format strings: nginx's `log_format` (ngx_http_log_module) and Apache's `LogFormat` (mod_log_config). Lines of JSON are
read by the names that servers commonly give to fields; Caddy nests them below `request`. A W3C extended log (IIS,
CloudFront) states its columns. HAR is version 1.2 of the format that browsers save.
"""

from __future__ import annotations

import gzip
import io
import json
import re
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
MAX_BYTES = 4 << 30
"""Longest log that is read, after unpacking; a compressed file may unpack to any size."""
MAX_LINE = 64 << 10
"""Longest line; longer ones are not read."""
PROBED = 50
"""Lines at the beginning of a log by which its format is recognised."""

FORMATS: Mapping[str, str] = {
    "combined": '%h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i"',
    "vhost_combined": '%v:%p %h %l %u %t "%r" %>s %O "%{Referer}i" "%{User-Agent}i"',
    "common": '%h %l %u %t "%r" %>s %b',
    "haproxy": (
        r"re:.*?\S+:\d+ \[(?P<time>[^\]]+)\] \S+ \S+ [\d/+-]+ (?P<status>\d{3}) \+?\d+ \S+ \S+ \S+ [\d/+]+ [\d/]+ "
        r'(?:\{[^}]*\} )*"(?P<request>[^"]*)"'
    ),
    "envoy": (
        r're:\[(?P<time>[^\]]+)\] "(?P<request>[^"]*)" (?P<status>\d{3}) \S+ (?:\S+ \S+ )?(?P<length>\d+) (?P<bytes>\d+) '
        r'\d+ \S+ "[^"]*" "(?P<user_agent>[^"]*)" "[^"]*" "(?P<host>[^"]*)" "[^"]*"'
    ),
}
"""Format strings, or regular expressions behind `re:`, by name, in the order in which they are tried."""

_NGINX: Mapping[str, str] = {
    "request": "request",
    "request_method": "method",
    "request_uri": "target",
    "uri": "target",
    "status": "status",
    "body_bytes_sent": "bytes",
    "content_length": "length",
    "request_length": "whole_length",
    "time_local": "time",
    "time_iso8601": "time",
    "msec": "time",
    "host": "host",
    "server_name": "host",
}
"""Variables of nginx that are read; `$http_…` are headers, and all others are skipped.

`$bytes_sent` and Apache's `%O` are skipped, as they include the headers of responses."""
_APACHE: Mapping[str, str] = {
    "r": "request",
    "m": "method",
    "U": "target",
    "s": "status",
    "b": "bytes",
    "B": "bytes",
    "I": "whole_length",
    "t": "time",
    "v": "host",
}
"""Directives of Apache that are read; `%{…}i` are headers, and all others are skipped."""
_JSON: Mapping[str, tuple[str, ...]] = {
    "request": ("request", "request_line"),
    "method": ("method", "request_method", "http_method", "verb", "RequestMethod"),
    "target": ("request_uri", "uri", "url", "path", "target", "RequestPath"),
    "status": ("status", "status_code", "response_status", "code", "DownstreamStatus"),
    "bytes": ("size", "body_bytes_sent", "bytes", "response_size", "DownstreamContentSize"),
    "length": ("bytes_read", "content_length", "request_size", "RequestContentSize"),
    "whole_length": ("request_length",),
    "time": ("StartUTC", "ts", "time", "timestamp", "@timestamp", "time_iso8601", "time_local", "msec"),
    "host": ("RequestHost", "host", "http_host", "server_name"),
    "user_agent": ("http_user_agent", "user_agent", "request_User-Agent"),
}
"""Names of fields in lines of JSON, of nginx, Traefik and others; of several in a line, the first of these is read."""
_W3C: Mapping[str, str] = {
    "cs-method": "method",
    "cs-uri-stem": "target",
    "cs-uri-query": "query",
    "sc-status": "status",
    "cs-host": "host",
    "cs(Host)": "host",
    "cs(User-Agent)": "user_agent",
}
"""Columns of a W3C extended log that are read, with `date` and `time`; its sizes include headers."""

_VARIABLE = re.compile(r"\$\{?([a-z0-9_]+)\}?|%[<>]?(?:\{([^}]*)\})?([a-zA-Z])|%%")
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
    """Requests that were left out, by the reason."""
    other_hosts: Counter[str] = field(default_factory=Counter)
    """Requests that were left out as they were sent to another host, by that host."""
    notes: dict[str, None] = field(default_factory=dict)

    def all_notes(self) -> Iterator[str]:
        """Yield what a user should know of this log."""
        yield from self.notes
        if len(self.hosts) > 1:
            named = ", ".join(f"{host} ({number:,})" for host, number in self.hosts.most_common(5))
            yield f"requests to {len(self.hosts)} hosts are sent to one: {named}; --host NAME takes those of one"
        if self.other_hosts:
            named = units.first_of([*self.other_hosts], 3)
            yield f"left out, to {units.counted(len(self.other_hosts), 'other host')} ({named}): {self.other_hosts.total():,}"
        yield from (f"left out, {reason}: {number:,}" for reason, number in self.left_out.most_common())


def read_log(data: bytes, form: str | None = None, host: str | None = None) -> Log:
    """Return the requests of a log in the order of its lines; gzip is unpacked.

    `form` is a format string of nginx or Apache, or a name of `FORMATS`; None: it is recognised. `host` takes the
    requests to one host alone; of a HAR file, None takes that of its first entry. Raises InputError for text without a
    request.
    """
    lines = list(_lines(data))
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
        log = _read_formatted(lines, _recognise(lines), host)
    if not log.requests:
        raise InputError(
            f"no line of {log.unread + log.left_out.total() + log.other_hosts.total()} has a request in the format {log.form!r}",
            hint="--format takes a format string of nginx or Apache, in quotes",
        )
    return log


def _lines(data: bytes) -> Iterator[str]:
    raw: io.BufferedIOBase = io.BytesIO(data)
    if data[:2] == b"\x1f\x8b":
        raw = gzip.GzipFile(fileobj=io.BytesIO(data))
    read = 0
    try:
        for line in raw:
            read += len(line)
            if read > MAX_BYTES:
                raise InputError(f"the log is longer than {MAX_BYTES >> 30} GiB", hint="give a part of it")
            if line.strip():
                yield line.decode("utf-8", errors="replace").rstrip("\r\n")
    except (OSError, EOFError) as error:
        raise InputError("the compressed log is damaged", why=str(error)) from None


def _recognise(lines: list[str]) -> str:
    patterns = {name: _compile(form) for name, form in FORMATS.items()}
    counts = Counter(
        {name: sum(_match(each, line) is not None for line in lines[:PROBED]) for name, each in patterns.items()}
    )
    return max(counts, key=counts.__getitem__)  # of several, the first in the table


def _match(pattern: re.Pattern[str], line: str) -> re.Match[str] | None:
    if len(line) > MAX_LINE:
        return None
    return pattern.match(line) or pattern.match(_COMPOSE.sub("", line, count=1))


def _read_formatted(lines: Iterable[str], form: str, host: str | None) -> Log:
    pattern, log = _compile(FORMATS.get(form, form)), Log(form)
    headers = {name: name.removeprefix("header_").replace("_", "-").title() for name in pattern.groupindex}
    for line in lines:
        match = _match(pattern, line)
        found = {} if match is None else match.groupdict()
        stated = {headers[name]: text for name, text in found.items() if name.startswith("header_")}
        _add(log, {name.rstrip("0123456789"): text for name, text in found.items()}, stated, host)
    return log


def _compile(form: str) -> re.Pattern[str]:
    """Return the pattern of a format, whose groups are fields, `header_…`, or not read.

    A value ends where the text after it begins; a quoted one may contain escaped quotes.
    """
    if form.startswith("re:"):
        return re.compile(form.removeprefix("re:"))
    pieces: list[str] = []
    names: set[str] = set()
    end = 0
    for match in _VARIABLE.finditer(form):
        pieces.append(re.escape(form[end : match.start()]))
        end = match.end()
        variable, argument, directive = match.groups()
        if match[0] == "%%":
            pieces.append("%")
            continue
        name = _meaning(variable, argument, directive)
        before, after = form[: match.start()][-1:], form[end : end + 1]
        if directive == "t" and argument is None:
            value, around = r"[^\]]*", (r"\[", r"\]")
        elif before == after == '"':
            value, around = r'(?:[^"\\]|\\.)*', ("", "")
        else:
            value, around = (r"\S*" if after in ("", " ") else f"[^{re.escape(after)}]*"), ("", "")
        group = f"(?P<{name}>{value})" if name and name not in names else f"(?:{value})"
        names.add(name)
        pieces.append(f"{around[0]}{group}{around[1]}")
    if not {"request", "target"} & names:
        hint = "it names $request or $request_uri (nginx), %r or %U (Apache)"
        raise InputError(f"the format {form!r} has no request", hint=hint)
    return re.compile("".join([*pieces, re.escape(form[end:])]))


def _meaning(variable: str | None, argument: str | None, directive: str | None) -> str:
    if variable is not None:
        header = variable.removeprefix("http_")
        return _NGINX.get(variable, "") if header == variable else f"header_{header}"
    if directive == "i" and argument is not None:
        return f"header_{argument.replace('-', '_')}"
    return _APACHE.get(directive or "", "") if argument is None or directive == "t" else ""


def _read_json(lines: Iterable[str], host: str | None) -> Log:
    log = Log("JSON lines")
    for line in lines:
        try:
            fields = json.loads(_COMPOSE.sub("", line, count=1)) if len(line) <= MAX_LINE else None
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
        found = {
            meaning: str(fields[name])
            for meaning, names in _JSON.items()
            if (name := next((each for each in names if isinstance(fields.get(each), str | int | float)), None))
        }
        stated = fields.get("headers") or fields.get("request_headers")
        named = stated.items() if isinstance(stated, Mapping) else ()
        single = {str(name): value[0] if isinstance(value, list) and value else value for name, value in named}
        _add(log, found, {name: value for name, value in single.items() if isinstance(value, str)}, host)
    return log


def _read_w3c(lines: Iterable[str], host: str | None) -> Log:
    log, columns = Log("W3C extended log"), list[str]()
    for line in lines:
        if line.startswith("#"):
            columns = line.split()[1:] if line.startswith("#Fields:") else columns
            continue
        named = dict(zip(columns, line.split("\t") if "\t" in line else line.split(" "), strict=False))
        found = {meaning: named[name] for name, meaning in _W3C.items() if named.get(name, "-") != "-"}
        if query := found.pop("query", None):
            found["target"] = f"{found.get('target', '')}?{query}"
        _add(log, {**found, "time": f"{named.get('date')}T{named.get('time')}Z"}, {}, host)
    return log


def _read_targets(lines: Iterable[str], host: str | None) -> Log:
    log = Log("list of targets")
    found: dict[str, str] = {}
    headers: dict[str, str] = {}

    def add_last() -> None:
        if found:
            _add(log, found, dict(headers), host)

    for line in lines:
        name, colon, value = line.partition(":")
        if match := _TARGET.fullmatch(line):
            add_last()
            found, headers = {"method": match[1] or match[3] or "GET", "target": match[2]}, {}
            body = match[4]
        elif line.startswith("@"):
            body = line[1:]
        else:
            body = None
            if colon and re.fullmatch(r"[A-Za-z0-9-]+", name):
                headers[name] = value.strip()
            elif not line.startswith("#"):
                log.unread += 1
        if body:
            log.notes[f"the body file {body} is not read: its request is sent without a body"] = None
    add_last()
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
    if text is None:
        return None, True
    if re.fullmatch(r"[0-9]{9,13}(\.[0-9]+)?", text):
        number = float(text)
        seconds = number / 1000 if number > 1e11 else number  # noqa: PLR2004 - of the year 5138, else milliseconds
        return seconds, seconds.is_integer()
    fraction = re.search(r"(?<=[0-9]{2}:[0-9]{2})\.([0-9]{1,9})", text)
    plain = text if fraction is None else text[: fraction.start()] + text[fraction.end() :]
    if "/" in plain and " " not in plain:
        plain += " +0000"
    try:
        moment = datetime.strptime(plain, "%d/%b/%Y:%H:%M:%S %z") if "/" in plain else datetime.fromisoformat(plain)
    except ValueError:
        return None, True
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    part_s = 0.0 if fraction is None else float(f"0.{fraction[1]}")
    return moment.timestamp() + part_s, part_s == 0


def _count(text: str | None) -> int | None:
    return int(text) if text is not None and re.fullmatch(r"[0-9]{1,15}", text) else None
