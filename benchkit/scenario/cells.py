"""The cells of a scenario, each with typed services and load, and the files that these name."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from benchkit.document import Document, SourceMap
from benchkit.errors import InputError, raise_faults, suggestion
from benchkit.files import read_regular
from benchkit.loadtools.load_shares import unsupported_fields
from benchkit.loadtools.registry import TOOLS, get_tool
from benchkit.loadtools.tool import NEED_RATE
from benchkit.models.base import STACK, Level, Levels, cell_id
from benchkit.models.load import RATE, Load
from benchkit.models.protocol import is_tls
from benchkit.models.request import Headers, HeaderValue, SecretValue, Traffic
from benchkit.scenario.checks import Fault
from benchkit.scenario.experiment import Cell, Experiment
from benchkit.scenario.model import REFERENCE, Scenario
from benchkit.services.certificates import require_no_certificate, resolve_trust
from benchkit.services.compose import COMPOSE, ComposeOptions, compose_containers
from benchkit.services.external import EXTERNAL, ExternalOptions, ExternalService
from benchkit.services.registry import BACKENDS, service_options
from benchkit.services.rendering import ServiceSpec
from benchkit.validation import Location

ReadT = TypeVar("ReadT")


def typed_cell(levels: Levels, scenario: Scenario, document: Document) -> Cell:
    """Return the cell with these levels. Raises InputError naming file, line and field."""
    stack = str(levels[STACK]) if STACK in levels else next(iter(scenario.stacks))
    varied = {name: document.data[name] for name in ("stacks", "load", "tools") if name in document.data}
    filled = Document(_filled_in(varied, levels), document.source)
    load, tool = filled.at("load"), filled.data["load"].get("tool")
    if tool in scenario.tools:
        load = load.overridden(filled.at("tools", tool))
    services = filled.at("stacks", stack, "services")
    return typed(levels, scenario.stacks[stack].entry, scenario.roles, services, load)


def _filled_in(data: Any, levels: Mapping[str, Level]) -> Any:  # noqa: ANN401 - YAML is any
    """Return a part of a scenario with levels in place of `$name`."""
    if isinstance(data, dict):
        return {key: _filled_in(value, levels) for key, value in data.items()}
    if isinstance(data, list):
        return [_filled_in(value, levels) for value in data]
    if not isinstance(data, str):
        return data
    match = REFERENCE.match(data)
    return levels[match[1]] if match else data.replace("$$", "$", 1) if data.startswith("$$") else data


def typed(levels: Levels, entry: str, roles: Mapping[str, object], services: Document, load: Document) -> Cell:
    """Return the cell of these services and this load, levels filled in.

    Raises InputError, naming file, line and field, for unknown backends, roles and services, wrong options of a
    backend, and a port used twice.
    """
    every = [each for name in services.data for each in _typed_services(name, services.at(name))]
    own = tuple(each for each in every if isinstance(each, ServiceSpec))
    external = tuple(each for each in every if isinstance(each, ExternalService))
    raise_faults(
        service.source.fault(("role",), f"no role {service.options.role!r}; {suggestion(service.options.role, roles)}")
        for service in own
        if service.options.role not in roles
    )
    raise_faults(source.fault(*fault) for source, fault in _service_faults(own, [each.name for each in every], entry))
    return Cell(cell_id(levels), levels, entry, own, _typed_load(load), load.source, external)


def _typed_services(name: str, document: Document) -> Iterator[ServiceSpec | ExternalService]:
    if document.data.get("backend") != COMPOSE:
        yield _typed_service(name, document)
        return
    for each, container in compose_containers(name, document.validated(ComposeOptions), document.source):
        yield _typed_service(each, container)


def _typed_service(name: str, document: Document) -> ServiceSpec | ExternalService:
    wanted, source = document.data.get("backend"), document.source
    if wanted is None:
        raise InputError(source.fault((), f"service {name}: backend is missing; {suggestion('', service_options())}"))
    if wanted == EXTERNAL:
        external = document.validated(ExternalOptions)
        protocol = external.effective_protocol
        tls = resolve_trust(external.tls, source.at("tls")) if is_tls(protocol) else None
        return ExternalService(name, external.url, protocol, tls, source)
    if wanted not in BACKENDS:
        why = BACKENDS.why_unknown(str(wanted), service_options())
        raise InputError(source.fault(("backend",), f"no backend {wanted!r}; {why}"))
    backend = BACKENDS[wanted]
    options = document.validated(backend.options)
    require_no_certificate(options.tls, source.at("tls"))
    return ServiceSpec(name, backend, backend.resolve(options, source), source)


def _service_faults(
    services: Sequence[ServiceSpec], names: Sequence[str], entry: str
) -> Iterator[tuple[SourceMap, Fault]]:
    users: dict[tuple[str, int], str] = {}
    for service in services:
        others = [name for name in names if name != service.name]
        for peer in service.backend.connects_to(service.options):
            if peer not in others:
                yield service.source, ((), f"no other service {peer!r} in this stack; {suggestion(peer, others)}")
        if (port := service.options.host_port) is not None:
            other = users.setdefault((service.options.role, port), service.name)
            if other != service.name:
                yield service.source, (("listen",), f"port {port} is already used by service {other!r}")
        if service.name == entry and service.protocol == "fastcgi":
            message = f"the load goes to this service, and no load tool speaks {service.protocol}"
            yield service.source, (("backend",), message)


def _typed_load(document: Document) -> Load:
    tool = document.data.get("tool")
    if isinstance(tool, str) and tool not in TOOLS:
        raise InputError(document.fault(("tool",), f"no load tool {tool!r}; {TOOLS.why_unknown(tool)}"))
    load, source = document.validated(Load), document.source
    if load.traffic is not None:
        if given := {"method", "path", "body", "requests"} & load.model_fields_set:
            raise InputError(source.fault((min(given),), "cannot be combined with traffic, which has its own requests"))
        load = _read(source, ("traffic",), load.traffic, partial(_with_traffic, load))
    source.require(_load_faults(load))
    requests = []
    for i, request in enumerate(load.requests):
        here = source.at("requests", i)
        if request.body_file is not None:
            request = request.with_file_content(_read(here, ("body_file",), request.body_file, read_regular))  # noqa: PLW2901
        requests.append(request.model_copy(update={"headers": _with_values(request.headers, here.at("headers"))}))
    headers = _with_values(load.headers, source.at("headers"))
    return load.model_copy(update={"requests": tuple(requests), "headers": headers})


def _load_faults(load: Load) -> Iterator[Fault]:
    has_rate = any(getattr(load, name) is not None for name in (RATE, *NEED_RATE))
    if load.capacity is not None:
        if load.rate is not None or load.share_of_slowest is not None:
            yield ("capacity",), "cannot be combined with rate: the search sets the rate of each probe"
        if load.duration_s is None:
            yield ("capacity",), "needs duration_s, the length of each probe"
        if not load.histogram:
            yield ("histogram",), "capacity needs histogram: true, for exact percentiles"
    elif load.share_of_capacity is not None:
        message = "needs capacity: it is a share of the rate that `capacity: {slo: {p99_s: 0.01}}` finds"
        yield ("share_of_capacity",), message
    if load.shape is not None:
        if not has_rate or load.searches_capacity:
            yield ("shape",), "needs a rate: it says how the target rate changes within the window"
        elif load.duration_s is None or load.duration_s < load.shape.end_s:
            yield ("shape",), "needs a window (duration_s) that is long enough for it"
    if load.arrivals != "constant" and not has_rate:
        yield ("arrivals",), "needs a rate: in a closed loop, requests have no due time"


def _read(source: SourceMap, location: Location, name: str, read: Callable[[Path], ReadT]) -> ReadT:
    """Return what `read` returns for the file that a value names, relative to the file with it. Raises InputError."""
    path = source.file(name, *location)
    try:
        return read(path)
    except OSError as error:
        why = f"cannot read {error.filename or path}: {error.strerror}"
    except ValueError as error:
        why = str(error)
    raise InputError(source.fault(location, why))


def _with_traffic(load: Load, path: Path) -> Load:
    try:
        traffic = Traffic.model_validate_json(read_regular(path))
    except ValidationError as error:
        raise ValueError(f"{path} is not a file of `benchkit traffic`: {error.errors()[0]['msg']}") from None
    return load.with_traffic(traffic)


def _with_values(headers: Headers, source: SourceMap) -> dict[str, HeaderValue]:
    """Return the headers with their secret values, as far as the controller has them: only a run needs them."""

    def with_value(name: str, value: HeaderValue) -> HeaderValue:
        if not isinstance(value, SecretValue) or value.is_read:
            return value
        try:
            return value.with_value(_read_secret(value, source, name))
        except OSError as error:
            problem = f"cannot read {error.filename}: {error.strerror}"
        except ValueError as error:
            problem = str(error)
        return value.with_problem(source.fault((name,), f"{value}: {problem}"))

    return {name: with_value(name, value) for name, value in headers.items()}


def _read_secret(secret: SecretValue, source: SourceMap, name: str) -> str:
    """Return a secret from its variable or file, without a file's last line feed. Raises OSError and ValueError."""
    if secret.file is not None:
        content = read_regular(source.file(secret.file, name))
        return content.decode("latin-1").removesuffix("\n").removesuffix("\r")
    value = os.environ.get(secret.env or "")
    if value is None:
        raise ValueError("this environment variable is not set")
    return value


def missing_secrets(experiment: Experiment) -> list[InputError]:
    """Return an error with all secret header values that the controller cannot read: a run would fail without them."""
    secrets = [secret for cell in experiment.cells for _, secret in cell.load.secrets if not secret.is_read]
    problems = "\n".join(dict.fromkeys(secret.problem for secret in secrets))
    hint = "set it: secret values are never stored, so every run reads them, even a resumed one"
    return [InputError(problems, hint=hint)] if problems else []


def validate_generators(experiment: Experiment, load_hosts: int) -> None:
    """Check that tools can apply each load, divided among the generator processes on `load_hosts` hosts.

    Reading a scenario checks the smallest number of load hosts, planning the actual one if it is larger. This includes
    the load of profile trials. Requests that a tool cannot send are no fault: planning reports these cells as
    unsupported.
    Raises InputError naming file, line and field.
    """
    loads: list[tuple[Load, SourceMap]] = [(cell.load, cell.load_source) for cell in experiment.cells]
    for kind, options in experiment.scenario.passes.items():
        loads += [(options.load(cell.load), experiment.document.source.at(kind)) for cell in experiment.cells]
    raise_faults(
        source.fault((unsupported.field,), unsupported.why)
        for load, source in loads
        for unsupported in unsupported_fields(get_tool(load.tool), load, load.processes * load_hosts)
        if not unsupported.concerns_requests
    )
