"""The cells of a scenario: its combinations of levels, each with typed services and load.

They are validated as far as that is possible without hosts.
"""

from __future__ import annotations

import itertools
import math
import os
import posixpath
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from benchkit.document import Document, SourceMap
from benchkit.errors import InputError, raise_faults, suggestion
from benchkit.files import read_regular
from benchkit.loadtools.load_shares import unsupported_fields
from benchkit.loadtools.registry import TOOLS, get_tool
from benchkit.loadtools.tool import NEED_RATE
from benchkit.models.base import STACK, Level, Levels, cell_id, level_text
from benchkit.models.load import RATE, Load
from benchkit.models.protocol import is_tls
from benchkit.models.request import Headers, HeaderValue, Request, SecretValue, is_secret
from benchkit.models.traffic import Traffic
from benchkit.scenario.experiment import Cell, Experiment
from benchkit.scenario.model import REFERENCE, Scenario
from benchkit.services.certificates import require_no_certificate, resolve_trust
from benchkit.services.compose import COMPOSE, ComposeOptions, compose_containers
from benchkit.services.external import EXTERNAL, ExternalOptions, ExternalService
from benchkit.services.registry import BACKENDS, service_options
from benchkit.services.rendering import ServiceSpec
from benchkit.validation import Location

MAX_SECRET_BYTES = 64 << 10
"""Most bytes that a file with a header value may have; servers refuse headers of a few kilobytes."""

MAX_CELLS = 10_000
"""Largest number of combinations of levels; a run of that many takes days for each block."""


Factors = Mapping[str, Sequence[object] | None]
"""Levels of each factor; None: any level may be named."""

SCRIPTS = (".js", ".mjs", ".cjs", ".ts")
"""Suffixes of scripts, which may import others."""
_COMMENTS = re.compile(r"/\*.*?\*/|^\s*//[^\n]*", re.DOTALL | re.MULTILINE)
_IMPORT = re.compile(r"""(?:\bfrom|\bimport|\b(?:import|require)\s*\()\s*(["'`])(\.{1,2}/[^"'`\n]+)\1""")
_OPEN = re.compile(r"""\bopen\s*\(\s*(["'`])([^"'`\n:]+)\1""")

ReadT = TypeVar("ReadT")
_LocatedLoad = tuple[Load, SourceMap, Location]
"""A load, the document that it is written in, and the location of its fields there."""


def typed_load(document: Document) -> Load:
    """Return the load of a cell, levels filled in. Raises InputError naming file, line and field."""
    tool = document.data.get("tool")
    if isinstance(tool, str) and tool not in TOOLS:
        raise InputError(document.fault(("tool",), f"no load tool {tool!r}; {TOOLS.why_unknown(tool)}"))
    load = document.validated(Load)
    if load.traffic is not None:
        if given := {"method", "path", "body", "requests"} & load.model_fields_set:
            raise InputError(document.fault((min(given),), "excludes traffic, which has the requests"))
        load = _read(document, ("traffic",), load.traffic, partial(_with_traffic, load))
    if load.capacity is not None:
        _require_capacity_fields(load, document)
    elif load.share_of_capacity is not None:
        raise InputError(
            document.fault(
                ("share_of_capacity",),
                "needs capacity: it is a share of the rate that `capacity: {slo: {p99_s: 0.01}}` finds",
            )
        )
    if load.shape is not None:
        _require_shape_fields(load, document)
    if load.arrivals != "constant" and not _is_at_rate(load):
        raise InputError(document.fault(("arrivals",), "needs a rate: in a closed loop no request is due"))
    if load.script is not None:
        load = load.with_script_files(_read(document, ("script",), load.script, read_script))
    requests = tuple(_with_files(request, document.at("requests", i)) for i, request in enumerate(load.requests))
    return load.model_copy(update={"requests": requests, "headers": _with_values(load.headers, document.at("headers"))})


def _read(document: Document, location: Location, name: str, read: Callable[[Path], ReadT]) -> ReadT:
    """Return what `read` returns for the file that a value names, relative to the file with it. Raises InputError."""
    path = Path(document.source.origin(location).source).parent / name
    try:
        return read(path)
    except OSError as error:
        why = f"cannot read {error.filename or path}: {error.strerror}"
    except ValueError as error:
        why = str(error)
    raise InputError(document.fault(location, why))


def _with_traffic(load: Load, path: Path) -> Load:
    try:
        traffic = Traffic.model_validate_json(read_regular(path))
    except ValidationError as error:
        raise ValueError(f"{path} is no file of `benchkit traffic`: {error.errors()[0]['msg']}") from None
    return load.with_traffic(traffic)


def _with_files(request: Request, document: Document) -> Request:
    """Return a request with its body and the values of its headers, where files or variables have them."""
    if request.body_file is not None:
        request = request.with_file_content(_read(document, ("body_file",), request.body_file, read_regular))
    return request.model_copy(update={"headers": _with_values(request.headers, document.at("headers"))})


def read_script(path: Path) -> dict[str, bytes]:
    """Return the content of a script and of all that it imports or opens beside it, by their paths from its folder.

    Raises OSError for a file that cannot be read, ValueError for one outside of the script's folder.
    """
    files: dict[str, bytes] = {}
    wanted = [path.name]
    while wanted:
        name = wanted.pop()
        if name in files:
            continue
        files[name] = read_regular(path.parent / name)
        if name.endswith(SCRIPTS):
            wanted += _imported(name, files[name].decode(errors="replace"))
    return files


def _imported(name: str, text: str) -> Iterator[str]:
    code = _COMMENTS.sub("", text)
    for _, reference in (*_IMPORT.findall(code), *_OPEN.findall(code)):
        if "${" in reference:  # a path with a variable in it is not known
            continue
        found = posixpath.normpath(posixpath.join(posixpath.dirname(name), reference))
        if found.startswith(("../", "/")):
            raise ValueError(f"{name} reads {reference}, outside of the script's folder: move it there")
        yield found


def _require_capacity_fields(load: Load, document: Document) -> None:
    if load.rate is not None or load.share_of_slowest is not None:
        raise InputError(document.fault(("capacity",), "excludes rate: the search sets the rate of each probe"))
    if load.duration_s is None:
        raise InputError(document.fault(("capacity",), "needs duration_s, the length of each probe"))
    if not load.histogram:
        raise InputError(document.fault(("histogram",), "capacity needs histogram: true, for exact percentiles"))


def _require_shape_fields(load: Load, document: Document) -> None:
    if not _is_at_rate(load) or load.searches_capacity:
        raise InputError(
            document.fault(("shape",), "needs a rate: it says how the target rate changes within the window")
        )
    if load.duration_s is None or load.shape is None or load.duration_s < load.shape.end_s:
        raise InputError(document.fault(("shape",), "needs a window (duration_s) that it ends in"))


def _is_at_rate(load: Load) -> bool:
    """Return True for a load with a target rate, one that the run finds included."""
    return any(getattr(load, name) is not None for name in (RATE, *NEED_RATE))


def _with_values(headers: Headers, document: Document) -> dict[str, HeaderValue]:
    """Return the headers with their secret values, as far as the controller has them: only a run needs them."""
    return {
        name: _with_value(value, document.at(name)) if isinstance(value, SecretValue) and not value.is_read else value
        for name, value in headers.items()
    }


def _with_value(secret: SecretValue, document: Document) -> SecretValue:
    try:
        return secret.with_value(_read_secret(secret, document))
    except OSError as error:
        problem = f"cannot read {error.filename}: {error.strerror}"
    except ValueError as error:
        problem = str(error)
    return secret.with_problem(document.fault((), f"{secret}: {problem}"))


def _read_secret(secret: SecretValue, document: Document) -> str:
    """Return a secret from its variable or file, without a file's last line feed. Raises OSError and ValueError."""
    if secret.file is None:
        value = os.environ.get(secret.env or "")
        if value is None:
            raise ValueError("this environment variable is not set")
        return value
    content = read_regular(Path(document.source.origin().source).parent / secret.file, MAX_SECRET_BYTES)
    return content.decode("latin-1").removesuffix("\n").removesuffix("\r")


def missing_secrets(experiment: Experiment) -> list[InputError]:
    """Return an error with all secret header values that the controller cannot read: a run would fail without them."""
    secrets = [secret for cell in experiment.cells for _, secret in cell.load.secrets if not secret.is_read]
    problems = "\n".join(dict.fromkeys(secret.problem for secret in secrets))
    hint = "set it: values of secret headers are not stored, and every run, also a resumed one, reads them again"
    return [InputError(problems, hint=hint)] if problems else []


def validate_generators(experiment: Experiment, load_hosts: int) -> None:
    """Check that tools can apply each load, divided among the generator processes on `load_hosts` hosts.

    Reading a scenario checks the smallest number of load hosts, planning the actual one if it is larger. This includes
    the load of profile trials. Requests that a tool cannot send are no fault: planning reports these cells as
    unsupported.
    Raises InputError naming file, line and field.
    """
    of_cells: list[_LocatedLoad] = [(cell.load, cell.load_source, ()) for cell in experiment.cells]
    of_passes: list[_LocatedLoad] = [
        (options.load(cell.load), experiment.document.source, (kind,))
        for kind, options in experiment.scenario.passes.items()
        for cell in experiment.cells
    ]
    for loads in (of_cells, of_passes):
        raise_faults(
            source.fault((*location, unsupported.field), unsupported.why)
            for load, source, location in loads
            for unsupported in unsupported_fields(get_tool(load.tool), load, load.processes * load_hosts)
            if not unsupported.concerns_requests
        )


def typed_services(
    document: Document, scenario: Scenario
) -> tuple[tuple[ServiceSpec, ...], tuple[ExternalService, ...]]:
    """Return the services of a stack with typed options, and the external ones.

    `document` holds the stack's services, levels filled in. Raises InputError, naming file, line and field, for unknown
    backends, roles and services, wrong options of a backend, and a port used twice.
    """
    typed = [each for name in document.data for each in _typed_services(name, document.at(name))]
    services = [each for each in typed if isinstance(each, ServiceSpec)]
    external = [each for each in typed if isinstance(each, ExternalService)]
    roles = (
        service.source.fault(field, f"no role {role!r}; {suggestion(role, scenario.roles)}")
        for service in typed
        for field, role in service.roles()
        if role not in scenario.roles
    )
    raise_faults((*roles, *_peer_faults(services, [each.name for each in typed]), *_port_faults(services)))
    return tuple(services), tuple(external)


def _typed_services(name: str, document: Document) -> Iterator[ServiceSpec | ExternalService]:
    """Yield a service of a stack, or all services of the Compose file that it names."""
    if document.data.get("backend") != COMPOSE:
        yield _typed_service(name, document)
        return
    for each, container in compose_containers(name, document.validated(ComposeOptions), document.source):
        yield _typed_service(each, container)


def _typed_service(name: str, document: Document) -> ServiceSpec | ExternalService:
    wanted = document.data.get("backend")
    if wanted is None:
        raise InputError(document.fault((), f"service {name}: backend is missing; {suggestion('', service_options())}"))
    if wanted == EXTERNAL:
        return _external_service(name, document)
    if wanted not in BACKENDS:
        raise InputError(
            document.fault(
                ("backend",), f"no backend {wanted!r}; {BACKENDS.why_unknown(str(wanted), service_options())}"
            )
        )
    backend = BACKENDS[wanted]
    options = document.validated(backend.options)
    require_no_certificate(options.tls, document.source.at("tls"))
    options = backend.resolve(options, document.source)
    return ServiceSpec(name, backend, options, document.source)


def _external_service(name: str, document: Document) -> ExternalService:
    options = document.validated(ExternalOptions)
    tls = resolve_trust(options.tls, document.source.at("tls")) if is_tls(options.effective_protocol) else None
    hooks = {"deploy": options.deploy, "ready": options.ready, "cleanup": options.cleanup}
    given = {name: hook for name, hook in hooks.items() if hook is not None}
    return ExternalService(name, options.url, options.effective_protocol, tls, document.source, given, options.watch)


def _peer_faults(services: list[ServiceSpec], names: Sequence[str]) -> Iterator[str]:
    for service in services:
        others = [name for name in names if name != service.name]
        for peer in service.backend.connects_to(service.options):
            if peer not in others:
                yield service.source.fault((), f"no other service {peer!r} in this stack; {suggestion(peer, others)}")


def _port_faults(services: list[ServiceSpec]) -> Iterator[str]:
    users: dict[tuple[str, int], str] = {}
    for service in services:
        if (port := service.options.host_port) is not None:
            other = users.setdefault((service.options.role, port), service.name)
            if other != service.name:
                yield service.source.fault(("listen",), f"port {port} is already used by service {other!r}")


def combinations(scenario: Scenario, document: Document) -> tuple[Levels, ...]:
    """Return the levels of all cells, in the order in which the file lists them.

    Raises InputError, naming file, line and field, for unused and unknown factors and levels that name no stack. Cells
    that are listed twice or do not exist are errors, too.
    """
    factors = scenario.factors
    number = math.prod(map(len, factors.values())) if scenario.cells is None else len(scenario.cells)
    if number > MAX_CELLS:
        message = f"these are {number:,} cells; allowed: up to {MAX_CELLS:,}; list those to compare in `cells`"
        raise InputError(document.fault(("factors" if scenario.cells is None else "cells",), message))
    _require_factors(scenario, document)
    wanted: Sequence[Levels] = (
        [dict(zip(factors, levels, strict=True)) for levels in itertools.product(*factors.values())]
        if scenario.cells is None
        else scenario.cells
    )
    cells = tuple(
        dict(levels)
        for levels in wanted
        if not any(excluded.items() <= levels.items() for excluded in scenario.exclude)
    )
    if not cells:
        raise InputError(document.fault(("exclude",) if scenario.exclude else ("cells",), "no cell remains"))
    duplicate, times = Counter(map(cell_id, cells)).most_common(1)[0]
    if times > 1:
        raise InputError(document.fault(("cells",), f"the cell {duplicate} is listed twice"))
    baseline = scenario.baseline
    if baseline is not None and not any(baseline.items() <= levels.items() for levels in cells):
        raise InputError(document.fault(("baseline",), f"no cell has {cell_id(baseline)}"))
    return cells


def typed_cell(levels: Levels, scenario: Scenario, document: Document) -> Cell:
    """Return the cell with these levels. Raises InputError naming file, line and field."""
    name = str(levels[STACK]) if STACK in levels else next(iter(scenario.stacks))
    entry = scenario.stacks[name].entry
    services = _filled_in(document.at("stacks", name, "services"), levels)
    load = _load(scenario, document, levels)
    typed, external = typed_services(services, scenario)
    raise_faults(
        service.source.fault(("backend",), f"the load goes to this service, and no load tool speaks {service.protocol}")
        for service in typed
        if service.name == entry and service.protocol == "fastcgi"
    )
    return Cell(
        cell_id=cell_id(levels),
        levels=levels,
        entry=entry,
        services=typed,
        external=external,
        load=typed_load(load),
        load_source=load.source,
    )


def _load(scenario: Scenario, document: Document, levels: Levels) -> Document:
    """Return the load of a cell, overridden by the fields that `tools` has for its tool."""
    load = _filled_in(document.at("load"), levels)
    tool = load.data.get("tool")
    if tool not in scenario.tools:
        return load
    return load.overridden(_filled_in(document.at("tools", tool), levels))


def _require_factors(scenario: Scenario, document: Document) -> None:
    faults = [*_stack_faults(scenario, document), *_cell_faults(scenario, document)]
    used = {STACK, *(scenario.factors if _has_deploy_hook(document) else ())}
    for part in ("stacks", "load", "tools", "tuning"):
        for location, name in _references(document.at(part)):
            used.add(name)
            if name not in scenario.factors:
                message = f"${name} refers to no factor; {suggestion(name, scenario.factors)}"
                faults.append(document.fault((part, *location), message))
            if "headers" in location[-2:-1] and is_secret(str(location[-1])):
                message = f"a level cannot be secret, as levels are shown everywhere; write {{env: ${name}}}"
                faults.append(document.fault((part, *location), f"{message}, with names of variables as levels"))
    faults += [
        document.fault(
            ("factors", name),
            f"nothing refers to this factor; write ${name} where its level belongs, in stacks, load, tools or tuning",
        )
        for name in scenario.factors
        if name not in used
    ]
    raise_faults(faults)


def _has_deploy_hook(document: Document) -> bool:
    """Return True if a command deploys a server of a stack: it finds all levels in its environment."""
    services = (service for stack in document.data["stacks"].values() for service in stack["services"].values())
    return any(service.get("backend") == EXTERNAL and service.get("deploy") is not None for service in services)


def _stack_faults(scenario: Scenario, document: Document) -> Iterator[str]:
    if STACK in scenario.factors:
        for i, level in enumerate(scenario.factors[STACK]):
            if level not in scenario.stacks:
                message = f"no stack {level!r}; {suggestion(str(level), scenario.stacks)}"
                yield document.fault(("factors", STACK, i), message)
    elif len(scenario.stacks) > 1:
        names = ", ".join(scenario.stacks)
        yield document.fault(("factors",), f"several stacks and no factor {STACK!r}; add `{STACK}: [{names}]`")
    for name, stack in scenario.stacks.items():
        if stack.entry not in stack.services:
            message = f"no service {stack.entry!r}; {suggestion(stack.entry, stack.services)}"
            yield document.fault(("stacks", name, "entry"), message)


def _cell_faults(scenario: Scenario, document: Document) -> Iterator[str]:
    for name, levels in scenario.factors.items():
        listed: set[str] = set()
        for i, text in enumerate(map(level_text, levels)):
            if text in listed:
                yield document.fault(("factors", name, i), f"level {text} is listed twice")
            listed.add(text)
    references: list[tuple[Location, Levels | None]] = [
        *((("cells", i), cell) for i, cell in enumerate(scenario.cells or ())),
        (("baseline",), scenario.baseline),
        (("service",), scenario.service),
    ]
    for location, cell in references:
        yield from level_faults(cell or {}, location, document, scenario.factors)
    for i, cell in enumerate(scenario.cells or ()):
        if missing := [name for name in scenario.factors if name not in cell]:
            message = f"a cell needs a level of every factor; missing: {', '.join(missing)}"
            yield document.fault(("cells", i), message)


def level_faults(
    levels: Levels, location: Location, document: Document, factors: Factors, scope: str = ""
) -> Iterator[str]:
    """Yield the faults of levels that name a cell: factors that do not exist, or that have no such level in `scope`.

    Without a scope, the levels are those of cells themselves: text is no number that reads the same.
    """
    for factor, level in levels.items():
        if factor not in factors:
            yield document.fault((*location, factor), f"no factor {factor!r}; {suggestion(factor, factors)}")
        elif (allowed := factors[factor]) is not None:
            known = {level_text(other): other for other in allowed if isinstance(other, bool | int | float | str)}
            text = level_text(level)
            if text not in known:
                yield document.fault((*location, factor), f"no level {text!r}{scope}; {suggestion(text, known)}")
            elif not scope and level != known[text]:
                yield document.fault((*location, factor), f"found {level!r}; the level is {known[text]!r}")


def _references(document: Document) -> Iterator[tuple[Location, str]]:
    for location, value in _scalars(document.data):
        if isinstance(value, str) and (match := REFERENCE.match(value)):
            yield location, match[1]


def _scalars(data: object, here: Location = ()) -> Iterator[tuple[Location, object]]:
    if isinstance(data, dict):
        for key, value in data.items():
            yield from _scalars(value, (*here, key))
    elif isinstance(data, list):
        for i, value in enumerate(data):
            yield from _scalars(value, (*here, i))
    else:
        yield here, data


def _filled_in(document: Document, levels: Mapping[str, Level]) -> Document:
    def fill_in(data: object) -> object:
        if isinstance(data, dict):
            return {key: fill_in(value) for key, value in data.items()}
        if isinstance(data, list):
            return [fill_in(value) for value in data]
        if isinstance(data, str):
            match = REFERENCE.match(data)
            return levels[match[1]] if match else data.replace("$$", "$", 1) if data.startswith("$$") else data
        return data

    return Document(fill_in(document.data), document.source)
