"""A request of a load: what a load tool sends, how often in relation to the others, and the expected response."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Annotated, Self

from pydantic import BeforeValidator, Field, PositiveFloat, PrivateAttr, StringConstraints, model_validator

from benchkit.models.base import Frozen
from benchkit.models.headers import CONTENT_LENGTH, Headers, header_value, revealed

WITH_CONTENT = frozenset({"POST", "PUT", "PATCH"})
"""Methods that anticipate content: a request without any states a length of zero (RFC 9110, 8.6)."""

MAX_CYCLE = 1000
"""Longest list in which requests are repeated for tools that know no weights."""


def _from_root(path: object) -> object:
    """Return a path with a slash at its start."""
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
        default=None, description="text that the body contains", examples=["Hello"]
    )
    sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")] | None = Field(
        default=None,
        description="SHA-256 of the body, in hexadecimal digits",
        examples=["d2a84f4b8b650937ec8f73cd8be2c74add5a911ba64df27458ed8229da804a26"],
    )


class Request(Frozen):
    """One request, as all load tools send it."""

    method: Method = Field(default="GET", description="method", examples=["POST"])
    path: RequestPath = Field(default="/", description="path and query", examples=["/search?q=a"])
    headers: Headers = Field(
        default_factory=dict,
        description="headers, by name; they override those of the load; a secret value is {env: NAME} or {file: PATH}. "
        "Content-Length follows from the body",
        examples=[{"Content-Type": "application/json"}],
    )
    body: str | None = Field(default=None, description="body as text", examples=["hello"])
    body_file: str | None = Field(
        default=None, description="file with the body, relative to the scenario's file", examples=["upload.bin"]
    )
    weight: PositiveFloat = Field(
        default=1, description="share of this request among all, in relation to the weights of the others", examples=[3]
    )
    expect: Expectation = Field(
        default_factory=Expectation,
        description="response that is checked once before every trial",
        examples=[{"status": 201}],
    )
    _file_content: bytes | None = PrivateAttr(default=None)

    @model_validator(mode="after")
    def _one_body(self) -> Self:
        if self.body is not None and self.body_file is not None:
            raise ValueError("body and body_file exclude each other")
        return self

    @model_validator(mode="after")
    def _own_length(self) -> Self:
        stated, size = header_value(self.headers, CONTENT_LENGTH), len(self.content or b"")
        if stated is not None and self.body_file is None and stated != str(size):
            raise ValueError(f"Content-Length is {stated}, but the body has {size} bytes: omit it, it is always sent")
        return self

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
