"""Requests of access logs: nginx and Apache by their format strings, JSON lines, Caddy's, and HAR files.

Format strings: nginx's `log_format` (ngx_http_log_module) and Apache's `LogFormat` (mod_log_config). "combined" is the
format of that name in both. JSON lines are read by the names that servers commonly give to fields; Caddy nests them
below `request`. HAR is version 1.2 of the format that browsers save.
"""

from __future__ import annotations

import gzip
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from benchkit.errors import InputError

NAMED_FORMATS: Mapping[str, str] = {
    "common": '%h %l %u %t "%r" %>s %b',
    "combined": '%h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i"',
}
"""Format strings by name, as both servers document them."""

HAR = "HAR"
"""Form of HAR files, which have all headers of a request."""
MAX_BYTES = 4 << 30
"""Longest log that is read, after unpacking; a compressed file may unpack to any size."""
MAX_LINE = 64 << 10
"""Longest line; longer ones are not read."""

_NGINX: Mapping[str, str] = {
    "request": "request",
    "request_method": "method",
    "request_uri": "target",
    "uri": "target",
    "status": "status",
    "body_bytes_sent": "bytes",
    "request_length": "length",
    "content_length": "length",
    "time_local": "time",
    "time_iso8601": "time",
    "msec": "time",
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
    "I": "length",
    "t": "time",
}
"""Directives of Apache that are read; `%{…}i` are headers, and all others are skipped."""

_JSON: Mapping[str, tuple[str, ...]] = {
    "request": ("request", "request_line"),
    "method": ("method", "request_method", "http_method", "verb"),
    "target": ("request_uri", "uri", "url", "path", "target"),
    "status": ("status", "status_code", "response_status", "code"),
    "bytes": ("size", "body_bytes_sent", "bytes", "response_size"),
    "length": ("bytes_read", "request_length", "content_length", "request_size"),
    "time": ("ts", "time", "timestamp", "@timestamp", "time_iso8601", "time_local", "msec"),
}
"""Names of fields in lines of JSON; of several in a line, the first of these is read."""

_VARIABLE = re.compile(r"\$\{?([a-z0-9_]+)\}?|%[<>]?(?:\{([^}]*)\})?([a-zA-Z])|%%")
_LINE = re.compile(r"([A-Z]{1,20}) (\S+)(?: (HTTP/[0-9.]+))?")


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


def read_log(data: bytes, form: str | None = None) -> Log:
    """Return the requests of a log in the order of its lines; gzip is unpacked.

    `form` is a format string of nginx or Apache, or a name of `NAMED_FORMATS`; None: HAR, JSON lines and combined are
    told apart. Raises InputError for text without a request.
    """
    lines = _lines(data)
    first = next(lines, None)
    if first is None:
        raise InputError("the log is empty")
    if form is None and first.lstrip().startswith("{"):
        whole = "\n".join([first, *lines])
        log = _read_har(whole) or _read_json(whole.splitlines())
    else:
        log = _read_formatted([first, *lines], form or "combined")
    if not log.requests:
        raise InputError(
            f"no line of {log.unread} has a request in the format {log.form!r}",
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


def _read_formatted(lines: Iterable[str], form: str) -> Log:
    pattern, names = _compile(NAMED_FORMATS.get(form, form))
    log = Log(form)
    for line in lines:
        match = pattern.match(line) if len(line) <= MAX_LINE else None
        fields = {} if match is None else {name: text for name, text in zip(names, match.groups(), strict=True) if name}
        headers = {name[1:]: text for name, text in fields.items() if name[:1] == ":" and text not in ("", "-")}
        _add(log, fields, headers)
    return log


def _compile(form: str) -> tuple[re.Pattern[str], list[str]]:
    """Return the pattern of a format string, and what each of its groups is: a field, `:Header`, or empty.

    A value ends where the text after it begins; a quoted one may contain escaped quotes.
    """
    pieces, names, end = [], [], 0
    for match in _VARIABLE.finditer(form):
        pieces.append(re.escape(form[end : match.start()]))
        end = match.end()
        variable, argument, directive = match.groups()
        if match[0] == "%%":
            pieces.append("%")
            continue
        names.append(_meaning(variable, argument, directive))
        before, after = form[: match.start()][-1:], form[end : end + 1]
        if directive == "t" and argument is None:
            pieces.append(r"\[([^\]]*)\]")
        elif before == after == '"':
            pieces.append(r'((?:[^"\\]|\\.)*)')
        elif after == "]":
            pieces.append(r"([^\]]*)")
        else:
            pieces.append(r"(\S*)" if after in ("", " ") else f"([^{re.escape(after)}]*)")
    if not {"request", "target"} & set(names):
        raise InputError(
            f"the format {form!r} has no request",
            hint="it names $request or $request_uri (nginx), %r or %U (Apache)",
        )
    return re.compile("".join([*pieces, re.escape(form[end:])])), names


def _meaning(variable: str | None, argument: str | None, directive: str | None) -> str:
    if variable is not None:
        header = variable.removeprefix("http_")
        return _NGINX.get(variable, "") if header == variable else f":{header.replace('_', '-').title()}"
    if directive == "i" and argument is not None:
        return f":{argument}"
    return _APACHE.get(directive or "", "") if argument is None or directive == "t" else ""


def _read_json(lines: Iterable[str]) -> Log:
    log = Log("JSON lines")
    for line in lines:
        try:
            fields = json.loads(line) if len(line) <= MAX_LINE else None
        except (ValueError, RecursionError):
            fields = None
        if not isinstance(fields, dict):
            log.unread += 1
            continue
        nested = fields.get("request")
        if isinstance(nested, dict):  # Caddy
            log.form = "Caddy"
            fields |= {name: nested.get(name) for name in ("method", "uri", "headers")}
            del fields["request"]
        found = {
            meaning: str(fields[name])
            for meaning, names in _JSON.items()
            if (name := next((each for each in names if isinstance(fields.get(each), str | int | float)), None))
        }
        _add(log, found, _headers(fields.get("headers") or fields.get("request_headers")))
    return log


def _headers(found: object) -> dict[str, str]:
    """Return headers by name; Caddy has a list of values for each."""
    if not isinstance(found, Mapping):
        return {}
    single = {name: value[0] if isinstance(value, list) and value else value for name, value in found.items()}
    return {str(name): value for name, value in single.items() if isinstance(value, str)}


def _read_har(text: str) -> Log | None:
    """Return the requests of a HAR file; None for other text."""
    try:
        document = json.loads(text)
        entries: list[Any] = document["log"]["entries"]
    except (ValueError, RecursionError, KeyError, TypeError):
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
        _add(log, fields, headers)
    return log


def _add(log: Log, fields: Mapping[str, str], headers: Mapping[str, str]) -> None:
    method, target = fields.get("method"), fields.get("target")
    if line := _LINE.fullmatch(fields.get("request", "")):
        method, target = line[1], line[2]
    if target is None or not target.isascii() or not re.fullmatch(r"[A-Z]{1,20}", method or "GET"):
        log.unread += 1
        return
    parts = urlsplit(target) if "://" in target else None
    if parts is not None:
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if not re.fullmatch(r"/[!#-\[\]-~]*", target):  # no quote, no backslash (RFC 3986, 2)
        log.unread += 1
        return
    at_s, is_whole = _instant(fields.get("time"))
    log.is_in_whole_seconds &= is_whole
    log.requests.append(
        LoggedRequest(
            method=method or "GET",
            target=target,
            at_s=at_s,
            status=_count(fields.get("status")),
            response_bytes=_count(fields.get("bytes")),
            request_bytes=_count(fields.get("length")),
            headers=headers,
        )
    )


def _instant(text: str | None) -> tuple[float | None, bool]:
    """Return an instant, and whether it is a whole second."""
    if text is None:
        return None, True
    if re.fullmatch(r"[0-9]{9,13}(\.[0-9]+)?", text):
        number = float(text)
        seconds = number / 1000 if number > 1e11 else number  # noqa: PLR2004 - of the year 5138, else milliseconds
        return seconds, seconds.is_integer()
    try:
        moment = datetime.strptime(text, "%d/%b/%Y:%H:%M:%S %z") if "/" in text else datetime.fromisoformat(text)
    except ValueError:
        return None, True
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return moment.timestamp(), moment.microsecond == 0


def _count(text: str | None) -> int | None:
    return int(text) if text is not None and re.fullmatch(r"[0-9]{1,15}", text) else None
