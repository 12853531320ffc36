"""The requests that a load tool can send: declared once per tool, compared with those of a load. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from benchkit.models.load import Load
from benchkit.models.request import CONTENT_LENGTH, MAX_CYCLE, Request, has_header, request_cycle

RequestPart = Literal["method", "path", "headers", "body"]

REQUEST_FIELDS = frozenset({"method", "path", "headers", "body", "requests"})
"""Fields of `Load` that state its requests. A cell whose tool cannot send them is unsupported; the others run."""


def no_reasons(_request: Request) -> Iterable[tuple[RequestPart, str]]:
    """Return no reason, for a tool that sends every request."""
    return ()


@dataclass(frozen=True)
class RequestSupport:
    """The requests that a tool can send."""

    differing: frozenset[RequestPart] = frozenset()
    """Parts in which the requests of one load may differ; none: the tool sends one request."""
    weights: Literal["drawn", "in turn", "in turn by connection"] = "in turn"
    """`drawn`: each request is drawn at random, with any weights; `in turn`: the tool goes through `request_cycle`, all
    connections together or each of them."""
    check: Callable[[Request], Iterable[tuple[RequestPart, str]]] = field(default=no_reasons, repr=False)
    """Return why it cannot send one request, each reason with the part that it concerns; pure."""

    def objections(self, load: Load, tool: str) -> Iterator[tuple[str, str]]:
        """Yield what the tool cannot send of a load: the field of `Load`, and the reason as a sentence."""
        mix = load.request_mix
        if len(mix) > 1:
            yield from (("requests", why) for why in self._mix_objections(load, mix, tool))
        for number, request in enumerate(mix, 1):
            for part, why in self.check(request):
                yield ("requests", f"request {number}, {request}: {part}: {why}") if load.requests else (part, why)

    def _mix_objections(self, load: Load, mix: tuple[Request, ...], tool: str) -> Iterator[str]:
        if not self.differing:
            yield f"{tool} sends one request, not {len(mix)}"
            return
        parts: Mapping[RequestPart, list[object]] = {
            "method": [request.method for request in mix],
            "path": [request.path for request in mix],
            "headers": [dict(request.headers) for request in mix],
            "body": [(request.body, request.body_file) for request in mix],
        }
        for part, values in parts.items():
            if part not in self.differing and any(value != values[0] for value in values):
                yield f"{tool} sends the same {part} with every request, and theirs differ"
        if self.weights == "drawn":
            return
        cycle = request_cycle(mix)
        if cycle is None:
            yield f"{tool} knows no weights, and repeating requests by these takes a list of more than {MAX_CYCLE}"
        elif self.weights == "in turn by connection" and (load.request_count or 0) % (load.connections * len(cycle)):
            multiple = load.connections * len(cycle)
            yield (
                f"every connection of {tool} goes through a list of {len(cycle)} requests: request_count must be a "
                f"multiple of {multiple}"
            )


ONE_REQUEST = RequestSupport()
"""For a tool that sends one request, of any kind."""


def repeated_requests(load: Load) -> tuple[Request, ...]:
    """Return the requests of a load without objections in the order in which a tool without weights sends them."""
    cycle = request_cycle(load.request_mix)
    if cycle is None:
        raise AssertionError("these weights have an objection")
    return cycle


def body_files(load: Load, tool: str) -> dict[str, bytes]:
    """Return the bodies of the requests as files for the working directory, those without one omitted."""
    contents = ((number, request.content) for number, request in enumerate(load.request_mix, 1))
    return {f"{tool}.body.{number}": content for number, content in contents if content is not None}


def body_file(load: Load, tool: str, request: Request) -> str | None:
    """Return the name in `body_files` of a request of `load.request_mix`; None without a body."""
    number = load.request_mix.index(request) + 1
    return f"{tool}.body.{number}" if has_body(request) else None


def has_body(request: Request) -> bool:
    """Return whether a request has a body, its content known or not."""
    return request.body is not None or request.body_file is not None


def header_lines(request: Request) -> list[str]:
    """Return `Name: value` of every header, in the scenario's order."""
    return [f"{name}: {value}" for name, value in request.headers.items()]


def with_zero_length(request: Request) -> Request:
    """Return a request without a body with its Content-Length, for a tool that adds only that of a body."""
    if has_body(request) or request.content_length is None:
        return request
    return request.model_copy(update={"headers": {**request.headers, CONTENT_LENGTH: "0"}})


def reserved_headers(request: Request, tool: str, *names: str) -> Iterator[tuple[RequestPart, str]]:
    """Yield a reason for each header that the tool always sets itself."""
    yield from (
        ("headers", f"{tool} always sends its own {name}") for name in names if has_header(request.headers, name)
    )
