"""What hey and its ancestor boom print, as a model in their own words."""

from __future__ import annotations

import re
from collections.abc import Mapping

from benchkit.load.tools.text import Reader, Rules, count, not_output_of, number, several_runs
from benchkit.models.base import Frozen

_TIMES = re.compile(r"(Total|Slowest|Fastest|Average):\s*(\S+) secs?\.?")
_RATE = re.compile(r"Requests/sec:\s*(\S+)")
_SIZES = re.compile(r"(?:(Total data|Total Data (?:Rece?ie?ved|Transferred))|[\w/ ]*[Rr]equest):\s*(\S+) bytes\.?")
_SECTION = re.compile(
    r"(Summary|Response time histogram|Latency distribution|Details \(.*\)|Detailed Report|HTTP Trace|HttpTrace"
    r"|Status code distr[iu]bution|Error distribution):"
)
_PERCENTILE = re.compile(r"([0-9]{1,3})%{1,2} in (\S+) secs?\.?")
_STATUS = re.compile(r"\[([0-9]{1,3})\]\s+(\S+) responses")
_ERROR = re.compile(r"\[([0-9]{1,18})\]\s+(\S.*)")
_DAMAGED = re.compile(r"(?:Total|Slowest|Fastest|Average|Requests/sec|Total data):.*")
_DAMAGED_PERCENTILE = re.compile(r"[0-9].*|.*(?:%|secs?).*")
_DAMAGED_STATUS = re.compile(r"\[.*|.*responses")
_NOT_A_NUMBER = frozenset({"NaN", "+Inf", "-Inf", "Inf"})


class HeyOutput(Frozen):
    """What hey printed, in its own words; times in seconds, sizes in bytes."""

    total: float | None = None
    slowest: float | None = None
    fastest: float | None = None
    average: float | None = None
    requests_per_s: float | None = None
    total_data: int | None = None
    latency_distribution: Mapping[str, float] = {}
    status_codes: Mapping[str, int] = {}
    errors: Mapping[str, int] = {}
    """How often each error was met, by its text."""
    sections: frozenset[str] = frozenset()
    """The sections that were reached."""
    unread: tuple[str, ...] = ()
    """Lines that are hey's, with a figure that could not be read."""


def read(text: str) -> HeyOutput:
    """`text` in hey's words. Raises ParseError where it holds no output of hey, or several."""
    return _Reader().read(text)


class _Reader(Reader):
    tool = "hey"

    def __init__(self) -> None:
        super().__init__()
        self.section = "Summary"
        self.seen: set[str] = set()
        self.percentiles: dict[str, float] = {}
        self.statuses: dict[str, int] = {}
        self.errors: dict[str, int] = {}
        start = ((_SECTION, self.start),)
        self._rules: dict[str, Rules] = {
            "Summary": (*start, (_TIMES, self.time), (_RATE, self.rate), (_SIZES, self.size), (_DAMAGED, self.damaged)),
            "Latency distribution": (*start, (_PERCENTILE, self.percentile), (_DAMAGED_PERCENTILE, self.damaged)),
            "Status code distribution": (*start, (_STATUS, self.status), (_DAMAGED_STATUS, self.damaged)),
            "Error distribution": (*start, (_ERROR, self.error)),
        }
        self._others: Rules = start

    @property
    def rules(self) -> Rules:
        return self._rules.get(self.section, self._others)

    def read(self, text: str) -> HeyOutput:
        lines = self.scan(text)
        sections = (self.percentiles, self.statuses, self.errors)
        if not self.found.values.keys() & {"total", "average"} and not any(sections):
            raise not_output_of("hey", lines)
        return HeyOutput.model_validate(
            {
                **self.found.values,
                "latency_distribution": self.percentiles,
                "status_codes": self.statuses,
                "errors": self.errors,
                "sections": frozenset(self.seen),
                "unread": tuple(self.found.unread),
            }
        )

    def start(self, match: re.Match[str]) -> None:
        self.section = match[1].replace("distrubution", "distribution")
        if self.section in self.seen:
            raise several_runs("hey", match[0])
        self.seen.add(self.section)

    def time(self, match: re.Match[str]) -> None:
        value = number(match[2])
        if value is None and match[2] in _NOT_A_NUMBER:
            return
        self.found.once(match[0], **{match[1].lower(): value})

    def rate(self, match: re.Match[str]) -> None:
        whole = not self.cut or re.search(r"\.[0-9]{4}$", match[1])  # always four decimals
        self.found.once(match[0], requests_per_s=number(match[1]) if whole else None)

    def size(self, match: re.Match[str]) -> None:
        if match[1]:
            self.found.once(match[0], total_data=count(match[2]))

    def percentile(self, match: re.Match[str]) -> None:
        time = number(match[2])
        if match[1] == "0" and time == 0:
            return  # a percentile that so few requests do not have
        if match[1] in self.percentiles:
            raise several_runs("hey", match[0])
        if time is None:
            self.found.unread.append(match[0])
        else:
            self.percentiles[match[1]] = time

    def status(self, match: re.Match[str]) -> None:
        responses = count(match[2])
        if match[1] in self.statuses:
            raise several_runs("hey", match[0])
        if responses is None:
            self.found.unread.append(match[0])
        else:
            self.statuses[match[1]] = responses

    def error(self, match: re.Match[str]) -> None:
        """Errors are foreign text: one may stand twice where its address was cut to the same words."""
        if self.cut:
            self.found.unread.append(match[0])  # its last words tell what kind it is
        self.errors[match[2]] = self.errors.get(match[2], 0) + int(match[1])
