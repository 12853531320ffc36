"""The requests of a load and of traffic, and headers, as scenarios and stored trials have them.

A header value that nobody else may read is a `SecretValue`: it names its source, and its value is neither stored nor
shown. Headers that are known to hold secrets (`is_secret`) take no other value.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from fractions import Fraction
from typing import Annotated, Literal, Self

from pydantic import (
    BeforeValidator,
    Field,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    PrivateAttr,
    StringConstraints,
    model_serializer,
    model_validator,
)

from benchkit.errors import InputError
from benchkit.models.base import Frozen
from benchkit.safe_text import redact_from_now_on

VALUE = r"^[!-~]([ -~]*[!-~])?$"
VARIABLE = r"^[A-Za-z_][A-Za-z0-9_]*$"

HeaderName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")]
TextValue = Annotated[str, StringConstraints(pattern=VALUE)]
"""Header names and values of RFC 9110, 5.1 and 5.5: tokens, and visible characters with blanks between them."""

NOT_STORED = "(not stored)"
"""Placeholder for the value of a secret header of a response."""

_SECRET_NAME = re.compile(
    r"auth(enti|ori[sz]|\b)|cookie|token|secret|passw|credential|session|signature|(api|access|private)[-_]?key",
    re.IGNORECASE,
)

CONTENT_LENGTH = "Content-Length"
WITH_CONTENT = frozenset({"POST", "PUT", "PATCH"})
"""Methods that anticipate content: a request without any states a length of zero (RFC 9110, 8.6)."""
MAX_CYCLE = 1000
"""Longest list in which requests are repeated for tools without weights."""


def is_secret(name: str) -> bool:
    """Return whether a header of this name is known to hold what nobody else may read."""
    return _SECRET_NAME.search(name) is not None


class SecretValue(Frozen):
    """A header value that is read when a run starts, on the controller, and that is never stored or shown."""

    env: Annotated[str, StringConstraints(pattern=VARIABLE)] | None = Field(
        default=None, description="environment variable of the controller", examples=["TOKEN"]
    )
    file: Annotated[str, StringConstraints(min_length=1)] | None = Field(
        default=None, description="file of the controller, relative to the scenario's", examples=["token.txt"]
    )
    _value: str | None = PrivateAttr(default=None)
    _problem: str = PrivateAttr(default="it was not read")

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.env is None) == (self.file is None):
            raise ValueError("a secret value is either {env: NAME} or {file: PATH}")
        return self

    @model_serializer
    def _source(self) -> dict[str, str]:
        return {name: source for name, source in (("env", self.env), ("file", self.file)) if source is not None}

    def __str__(self) -> str:
        """Return the source, `{env: TOKEN}`, which stands for the value wherever that is shown."""
        return f"{{env: {self.env}}}" if self.file is None else f"{{file: {self.file}}}"

    @property
    def is_read(self) -> bool:
        """True where the value is known."""
        return self._value is not None

    @property
    def problem(self) -> str:
        """Reason why the value is not known, for a message."""
        return self._problem

    def reveal(self) -> str:
        """Return the value, for what sends it: never store or show it. Raises InputError where it is unknown."""
        if self._value is None:
            raise InputError(f"the value of {self} is not known", why=self._problem)
        return self._value

    def with_value(self, value: str) -> Self:
        """Return the same with its value. Raises ValueError, without the value, where no header can have it."""
        if not re.fullmatch(VALUE, value):
            why = "is empty" if not value else "has blanks at its ends, or characters other than visible ASCII"
            raise ValueError(f"the value {why}")
        redact_from_now_on(value)
        copied = self.model_copy()
        copied._value = value  # noqa: SLF001 - of the same class
        return copied

    def with_problem(self, problem: str) -> Self:
        """Return the same without a value, and the reason."""
        copied = self.model_copy()
        copied._problem = problem  # noqa: SLF001 - of the same class
        return copied


def _require_sources(headers: object) -> object:
    """Refuse the text of a known secret header, before anything quotes it in a message."""
    for name, value in headers.items() if isinstance(headers, Mapping) else ():
        if isinstance(name, str) and is_secret(name) and not isinstance(value, Mapping | SecretValue):
            raise ValueError(f"{name} may hold a secret, which is not stored: write {{env: NAME}} or {{file: PATH}}")
    return headers


HeaderValue = TextValue | SecretValue
Headers = Annotated[Mapping[HeaderName, HeaderValue], BeforeValidator(_require_sources)]


def _without_values(pairs: object) -> object:
    if not isinstance(pairs, Sequence) or isinstance(pairs, str):
        return pairs
    return tuple(
        (pair[0], NOT_STORED) if isinstance(pair, Sequence) and pair and is_secret(str(pair[0])) else pair
        for pair in pairs
    )


ResponseHeaders = Annotated[tuple[tuple[str, str], ...], BeforeValidator(_without_values)]
"""Headers of a response in their order; a session cookie or a token is as secret as one of a request."""


def has_header(headers: Headers, name: str) -> bool:
    """Return whether there is a header of this name; case does not matter (RFC 9110, 5.1)."""
    return any(each.lower() == name.lower() for each in headers)


def without_header(headers: Headers, name: str) -> dict[str, HeaderValue]:
    """Return the headers without the one of this name."""
    return {each: value for each, value in headers.items() if each.lower() != name.lower()}


def merged_headers(common: Headers, own: Headers) -> dict[str, HeaderValue]:
    """Return the headers with those in `own` overriding common ones of the same name."""
    return {**{name: value for name, value in common.items() if not has_header(own, name)}, **own}


def revealed(headers: Headers) -> dict[str, str]:
    """Return the headers as they are sent. Raises InputError where a secret value is unknown."""
    return {name: value.reveal() if isinstance(value, SecretValue) else value for name, value in headers.items()}


def _from_root(path: object) -> object:
    return f"/{path}" if isinstance(path, str) and path[:1].isalnum() else path


Method = Annotated[str, StringConstraints(pattern=r"^[A-Z]{1,20}$")]
RequestPath = Annotated[str, BeforeValidator(_from_root), StringConstraints(pattern=r"^/[!-~]*$")]
"""Path and query; the leading slash is optional, because levels of factors cannot begin with one."""


class Expectation(Frozen):
    """The response that a request must get before every trial; what is absent is not compared."""

    status: Annotated[int, Field(ge=200, le=599)] | None = Field(
        default=None, description="status; absent: any below 400", examples=[201]
    )
    contains: Annotated[str, StringConstraints(min_length=1)] | None = Field(
        default=None, description="text in the body", examples=["Hello"]
    )
    sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")] | None = Field(
        default=None,
        description="SHA-256 of the body",
        examples=["d2a84f4b8b650937ec8f73cd8be2c74add5a911ba64df27458ed8229da804a26"],
    )
    size: tuple[NonNegativeInt, NonNegativeInt] | None = Field(
        default=None,
        description="fewest and most bytes of the body; openloop counts answers of other sizes by class",
        examples=[[100, 5000]],
    )


def is_expected(status: int, expected: Collection[int | None]) -> bool:
    """Return whether a status is one of those expected; None among them is any 2xx (RFC 9110, 15.3)."""
    return status in expected or (None in expected and 200 <= status <= 299)  # noqa: PLR2004 - see above


class Request(Frozen):
    """One request, as all load tools send it."""

    method: Method = Field(default="GET", description="method", examples=["POST"])
    path: RequestPath = Field(default="/", description="path and query", examples=["/search?q=a"])
    headers: Headers = Field(
        default_factory=dict,
        description="by name; they override the load's. Content-Length follows from the body",
        examples=[{"Content-Type": "application/json"}],
    )
    body: str | None = Field(default=None, description="body as text", examples=["hello"])
    body_file: str | None = Field(
        default=None, description="file with the body, relative to the scenario's", examples=["upload.bin"]
    )
    weight: PositiveFloat = Field(
        default=1, description="share among all requests, relative to the others' weights", examples=[3]
    )
    kind: Annotated[str, StringConstraints(min_length=1)] | None = Field(
        default=None, description="class in which openloop counts it; absent: method and path", examples=["search"]
    )
    expect: Expectation = Field(
        default_factory=Expectation,
        description="response that is checked before every trial",
        examples=[{"status": 201}],
    )
    _file_content: bytes | None = PrivateAttr(default=None)

    @model_validator(mode="after")
    def _one_body(self) -> Self:
        if self.body is not None and self.body_file is not None:
            raise ValueError("give body or body_file, not both")
        return self

    @property
    def class_name(self) -> str:
        """Name of its class: of all requests that differ in ids alone, or of this request."""
        return str(self) if self.kind is None else self.kind

    def __str__(self) -> str:
        """Return `POST /upload`, for messages."""
        return f"{self.method} {self.path}"

    @property
    def content(self) -> bytes | None:
        """Bytes of the body; None without one, and for the file of a stored request, whose content is not stored."""
        return self._file_content if self.body is None else self.body.encode()

    @property
    def content_length(self) -> int | None:
        """Value of its Content-Length, once in every request; None: it has no such header."""
        content = self.content
        return len(content or b"") if content is not None or self.method in WITH_CONTENT else None

    @property
    def revealed(self) -> Self:
        """The same request with its secret header values as text, for what sends it."""
        return self.model_copy(update={"headers": revealed(self.headers)})

    def with_file_content(self, content: bytes) -> Self:
        """Return the same request with the content of its `body_file`."""
        copied = self.model_copy()
        copied._file_content = content  # noqa: SLF001 - of the same class
        return copied


def request_cycle(requests: Sequence[Request]) -> tuple[Request, ...] | None:
    """Return the requests repeated by their weights, for tools that go through a list again and again.

    Repetitions are spread evenly (smooth weighted round-robin, as nginx's upstream module does it): weights 2 and 1
    give a, b, a. None where the list would have more than `MAX_CYCLE` entries.
    """
    weights = [Fraction(repr(request.weight)) for request in requests]
    scale = math.lcm(*(weight.denominator for weight in weights))
    counts = [int(weight * scale) for weight in weights]
    divisor = math.gcd(*counts)
    counts = [count // divisor for count in counts]
    total = sum(counts)
    if total > MAX_CYCLE:
        return None
    current = [0] * len(counts)
    cycle = []
    for _ in range(total):
        current = [value + count for value, count in zip(current, counts, strict=True)]
        chosen = max(range(len(current)), key=current.__getitem__)
        current[chosen] -= total
        cycle.append(requests[chosen])
    return tuple(cycle)


MAX_BODY_BYTES = 16 << 20
"""Largest body that a request of traffic has; larger ones in a log get this size."""


class TrafficRequest(Frozen):
    """One request of traffic, with its share and the answers that it got."""

    kind: str = Field(description="class of requests that differ in ids alone: `GET /items/{}`")
    method: Method
    path: RequestPath
    headers: Mapping[str, str] = Field(default_factory=dict, description="headers that were chosen; never a secret one")
    body_bytes: Annotated[int, Field(ge=0, le=MAX_BODY_BYTES)] | None = Field(
        default=None, description="size of its body, where it is known"
    )
    weight: Annotated[float, Field(gt=0)] = Field(description="requests of the log that it stands for")
    status: Annotated[int, Field(ge=200, le=599)] | None = Field(
        default=None, description="of most answers to its class"
    )
    size: tuple[NonNegativeInt, NonNegativeInt] | None = Field(
        default=None, description="fewest and most bytes of their bodies"
    )

    @property
    def request(self) -> Request:
        """The request as load tools send it: its body is filled with one letter."""
        return Request(
            method=self.method,
            path=self.path,
            headers=self.headers,
            body=None if self.body_bytes is None else "x" * self.body_bytes,
            weight=self.weight,
            kind=self.kind,
            expect=Expectation(status=self.status, size=self.size),
        )


class Traffic(Frozen):
    """Requests by class, in the order of the classes' shares."""

    version: Literal[1] = 1
    source: str = Field(description="where it comes from, as a phrase: `access.log (combined)`")
    lines: PositiveInt = Field(description="requests that were read")
    period_s: Annotated[float, Field(ge=0)] | None = Field(
        default=None, description="from the first request to the last"
    )
    requests: tuple[TrafficRequest, ...] = Field(min_length=1)
    order: tuple[NonNegativeInt, ...] = Field(default=(), description="places of requests in the order of the log")
    times: tuple[Annotated[float, Field(ge=0)], ...] = Field(
        default=(), description="seconds of each of these from the first"
    )
    notes: tuple[str, ...] = Field(default=(), description="what the source does not state, and what was omitted")

    @property
    def mean_rate(self) -> float | None:
        """Requests per second over the period; None where it is unknown."""
        return self.lines / self.period_s if self.period_s else None
