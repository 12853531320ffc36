"""What `vegeta report` prints, as text, JSON, buckets or percentiles, as a model in its own words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from benchkit.errors import ParseError
from benchkit.load.tools.text import (
    QUOTED,
    SECONDS,
    Reader,
    Rules,
    count,
    lines_of,
    not_output_of,
    number,
    several_runs,
    shown,
)
from benchkit.models.base import Frozen

_CLOCK = re.compile(r"(?:([0-9]{1,6})h(?=[0-9]+m))?(?:([0-9]{1,2})m)?([0-9]{1,2}(?:\.[0-9]{1,9})?)s")
_SMALL = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,6})?)([^0-9.]s)")

_ROW = re.compile(r"(Requests|Duration|Latencies|Bytes In|Bytes Out|Success)\s+\[([^\]]{1,80})\]\s+(\S.*)")
_CODES = re.compile(r"Status Codes\s+\[code:count\]\s*(.*)")
_CODE = re.compile(r"([0-9]{1,3}):([0-9]{1,18})")
_DOCUMENT = re.compile(r"^\{", re.MULTILINE)
_ERRORS = re.compile(r"Error Set:")
_DAMAGED = re.compile(r"(?:Requests|Duration|Latencies|Bytes In|Bytes Out|Success|Status Codes)\s.*")
_BUCKETS = re.compile(r"Bucket\s+#\s+%\s+Histogram")
_BUCKET = re.compile(r"\[(\S+),\s+(\S+)\]\s+([0-9]{1,18})\s+[0-9.]+%.*")
_SPECTRUM = re.compile(r"Value\(ms\)\s+Percentile\s+TotalCount\s+1/\(1-Percentile\)")
_POINT = re.compile(r"([0-9]{1,12}\.[0-9]{6})\s+([01]\.[0-9]{6})\s+([0-9]{1,18})\s+([0-9.]+)")


class VegetaOutput(Frozen):
    """What a report of vegeta states; times in seconds, sizes in bytes."""

    requests: int | None = None
    rate: float | None = None
    """Requests sent ÷ attack time."""
    throughput: float | None = None
    """Good answers ÷ (attack + wait)."""
    attack_s: float | None = None
    total_s: float | None = None
    """All that versions before 6 say of the duration: attack and wait together."""
    wait_s: float | None = None
    latencies: Mapping[str, float] | None = None
    """By the report's own names: min, mean, max, and percentiles as "50"."""
    bytes_in: int | None = None
    bytes_out: int | None = None
    success: float | None = None
    """Share of answers with a status from 200 to 399."""
    status_codes: Mapping[str, int] | None = None
    """Code "0" is a request without an answer."""
    errors: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    """Lines that are vegeta's, with a figure that could not be read."""
    kind: Literal["text", "json", "hist", "hdrplot"] = "text"


def duration(token: str) -> float | None:
    """Seconds in a duration as Go prints it (`1m30.5s`, `145.082066ms`, `0s`); None for anything else."""
    if match := _CLOCK.fullmatch(token):
        hours, minutes, seconds = (float(part or 0) for part in match.groups())
        return hours * 3600 + minutes * 60 + seconds
    match = _SMALL.fullmatch(token)
    if match is None:
        return None
    unit = 1e-9 if match[2] == "ns" else SECONDS.get(match[2])
    return None if unit is None else float(f"{float(match[1]) * unit:.15g}")


def read(text: str) -> VegetaOutput:
    """`text` in vegeta's words. Raises ParseError where it holds no report of vegeta, or several."""
    if '"latencies"' in text:
        plain = "\n".join(line.strip(QUOTED) for line in lines_of(text))
        start = _DOCUMENT.search(plain)
        if start:
            return _json(plain[start.start() : plain.rfind("}") + 1])
    return _Reader().read(text)


class _Reader(Reader):
    tool = "vegeta"

    def __init__(self) -> None:
        super().__init__()
        self.kind = "text"
        self.buckets: list[int] = []
        self.points: dict[str, float] = {}
        self.errors: list[str] | None = None
        self._rules: Rules = (
            (_ROW, self.row),
            (_CODES, self.codes),
            (_ERRORS, self.error_set),
            (_BUCKETS, self.start_buckets),
            (_BUCKET, self.bucket),
            (_SPECTRUM, self.start_points),
            (_POINT, self.point),
            (_DAMAGED, self.damaged),
        )

    @property
    def rules(self) -> Rules:
        return self._rules

    def read(self, text: str) -> VegetaOutput:
        lines = self.scan(text)
        if not self.found.values and not self.buckets and not self.points:
            raise not_output_of("vegeta", lines)
        more: dict[str, object] = {"kind": self.kind, "errors": tuple(self.errors or ())}
        if self.kind == "hist":
            more["requests"] = sum(self.buckets)
        if self.points:
            more["latencies"] = self.points
        return VegetaOutput.model_validate({**self.found.values, **more, "unread": tuple(self.found.unread)})

    def take(self, line: str) -> None:
        if self.errors is not None and not _ROW.fullmatch(line):
            self.errors.append(shown(line))
        else:
            super().take(line)

    def row(self, match: re.Match[str]) -> None:
        """A row whose names stand in brackets before its figures."""
        label, names, cells = match[1], match[2].split(", "), match[3].split(", ")
        if len(names) != len(cells) or self.doubtful(match[0]):
            self.found.unread.append(match[0])
            return
        named = dict(zip(names, cells, strict=True))
        if label == "Latencies":
            times = {name: duration(cell) for name, cell in named.items()}
            self.found.once(match[0], latencies=None if None in times.values() else times)
            return
        for name, cell in named.items():
            self.found.once(match[0], **_figure(label, name, cell))

    def codes(self, match: re.Match[str]) -> None:
        pairs = [_CODE.fullmatch(pair) for pair in match[1].split()]
        codes = {pair[1]: int(pair[2]) for pair in pairs if pair}
        whole = len(codes) == len(pairs)
        if (self.cut or not codes) and sum(codes.values()) != self.found.values.get("requests"):
            whole = False
        self.found.once(match[0], status_codes=codes if whole else None)

    def error_set(self, _match: re.Match[str]) -> None:
        self.errors = []

    def start_buckets(self, match: re.Match[str]) -> None:
        self._start(match, "hist")

    def bucket(self, match: re.Match[str]) -> None:
        if self.kind == "hist":
            self.buckets.append(int(match[3]))

    def start_points(self, match: re.Match[str]) -> None:
        self._start(match, "hdrplot")

    def point(self, match: re.Match[str]) -> None:
        if self.kind == "hdrplot":
            share = float(match[2])
            name = "min" if share == 0 else "max" if share == 1 else f"{share * 100:.7g}"
            self.points[name] = float(f"{float(match[1]) / 1000:.15g}")

    def _start(self, match: re.Match[str], kind: str) -> None:
        if self.kind != "text" or self.found.values:
            raise several_runs("vegeta", match[0])
        self.kind = kind


def _figure(label: str, name: str, cell: str) -> dict[str, object]:
    """The model's field for one figure of a row; empty for those that it leaves out (means of bytes)."""
    match label, name:
        case "Requests", "total":
            return {"requests": count(cell)}
        case "Requests", ("rate" | "throughput"):
            return {name: number(cell)}
        case "Duration", ("total" | "attack" | "wait"):
            return {f"{name}_s": duration(cell)}
        case (("Bytes In" | "Bytes Out"), "total"):
            return {label.lower().replace(" ", "_"): count(cell)}
        case "Success", "ratio":
            percent = number(cell.removesuffix("%"))
            sound = percent is not None and cell.endswith("%") and percent <= 100  # noqa: PLR2004 - per cent
            return {"success": float(f"{percent / 100:.15g}") if sound and percent is not None else None}
    return {}


_Count = Annotated[int, Field(ge=0, lt=10**18)]
_Number = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class _Json(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore")


class _Bytes(_Json):
    total: _Count


class _Document(_Json):
    """The JSON report; times are nanoseconds."""

    latencies: dict[str, _Number]
    requests: _Count
    rate: _Number | None = None
    throughput: _Number | None = None
    duration: _Number | None = None
    wait: _Number | None = None
    bytes_in: _Bytes | None = None
    bytes_out: _Bytes | None = None
    success: Annotated[float, Field(ge=0, le=1)] | None = None
    status_codes: dict[str, _Count] | None = None
    errors: list[str] | None = None


def _json(text: str) -> VegetaOutput:
    try:
        document = _Document.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ParseError(
            "this JSON is no whole report of vegeta",
            why=": ".join(part for part in (where, first["msg"]) if part),
            hint="was it cut, or does it hold several reports?",
        ) from None
    times = {name.removesuffix("th"): float(f"{ns * 1e-9:.15g}") for name, ns in document.latencies.items()}
    return VegetaOutput(
        requests=document.requests,
        rate=document.rate,
        throughput=document.throughput,
        attack_s=None if document.duration is None else float(f"{document.duration * 1e-9:.15g}"),
        wait_s=None if document.wait is None else float(f"{document.wait * 1e-9:.15g}"),
        latencies={name: time for name, time in times.items() if name != "total"},
        bytes_in=document.bytes_in and document.bytes_in.total,
        bytes_out=document.bytes_out and document.bytes_out.total,
        success=document.success,
        status_codes=document.status_codes,
        errors=tuple(shown(message) for message in document.errors or ()),
        kind="json",
    )
