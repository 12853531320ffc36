"""Planning: from an experiment and connected hosts to the plan of a run.

Services are validated and built before anything is deployed: programs on the hosts validate the configurations that
they will read, and releases of Go and Node must exist.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from benchkit import units
from benchkit.errors import BenchkitError, HostError, InputError, raise_faults, raise_first
from benchkit.hosts.connections import Hosts
from benchkit.hosts.host import Host
from benchkit.hosts.inventory import Inventory
from benchkit.hosts.tuning import TuningPlan, sudo_commands
from benchkit.loadtools.registry import get_tool
from benchkit.plan.cells import (
    HostCapabilities,
    mark_equal_cells,
    missing_program_error,
    plan_cell,
    with_tuning,
)
from benchkit.plan.design import (
    calibrations,
    cells_of_pass,
    control_cells,
    held_cells,
    pass_notes,
    pass_order,
    plan_design,
)
from benchkit.plan.model import PlannedCell, RunPlan, cell_record, tuning_required_error
from benchkit.plan.tuning_plan import plan_cell_tuning, plan_tuning
from benchkit.scenario.cells import missing_secrets, validate_generators
from benchkit.scenario.experiment import Experiment, needed_programs
from benchkit.scenario.model import LOAD_ROLE
from benchkit.scenario.trial_order import planned_trials
from benchkit.services.builds import Built, BuiltFolder, builds_of, unused_build
from benchkit.services.container_engine import engine_name, read_engine
from benchkit.services.deploy import config_fault
from benchkit.services.service import ConfigTest, Container, Service

Roles = Mapping[str, tuple[str, ...]]
"""Names of the hosts of each role."""


def make_plan(experiment: Experiment, hosts: Hosts, seed: int | None = None) -> RunPlan:
    """Return the plan of a run on these hosts, whose state is read and not changed; `seed` replaces the scenario's.

    Raises InputError for a scenario or an inventory that cannot be run. Raises HostError if a host does not answer,
    lacks a program or does not accept a required setting.
    """
    plan, errors = draft_plan(experiment, hosts, seed)
    raise_first(errors)
    return plan


def draft_plan(experiment: Experiment, hosts: Hosts, seed: int | None = None) -> tuple[RunPlan, list[BenchkitError]]:
    """Return a plan, and all errors that prevent its run, for `benchkit plan`.

    Raises an error only where no plan can be made.
    """
    seed = experiment.scenario.seed if seed is None else seed
    roles = require_roles(experiment, hosts.inventory)
    if (load_hosts := len(roles[LOAD_ROLE])) > experiment.scenario.roles[LOAD_ROLE].hosts:
        validate_generators(experiment, load_hosts)
    for role, programs in needed_programs(experiment).items():
        for name in roles[role]:
            hosts[name].find_programs(programs)
    tuning, required = plan_tuning(experiment, roles, hosts)
    capabilities = {host.name: with_tuning(HostCapabilities(host.spec, host.facts), tuning) for host in hosts}
    cell_tuning = plan_cell_tuning(experiment, roles, hosts, tuning)
    supported, missing = _plan_cells(experiment, roles, capabilities, cell_tuning)
    supported = validate_engines(validate_configs(mark_equal_cells(build_services(supported)), hosts), hosts)
    planned_cells = (
        *supported,
        *control_cells(experiment, supported),
        *held_cells(experiment, supported, roles, capabilities),
    )
    design = plan_design(experiment, planned_cells, roles, capabilities)
    cells = design.cells
    runnable = [cell.cell_id for cell in cells if cell.unsupported is None]
    measured = planned_trials(design.design, runnable, experiment.scenario.blocks, seed)
    needed_tuning = [each for each in tuning if each.host in required]
    needed_tuning += [
        each
        for cell in experiment.cells
        if experiment.requires_tuning(cell.levels)
        for each in cell_tuning[cell.cell_id]
    ]
    errors: list[BenchkitError] = [
        *missing,
        *(tuning_required_error(sentence) for each in needed_tuning for sentence in each.sentences()),
        *_nothing_runnable(experiment, supported),
        *missing_secrets(experiment),
    ]
    plan = RunPlan(
        experiment=experiment,
        seed=seed,
        design=design.design,
        design_reason=design.why,
        roles=roles,
        cells=cells,
        planned_trials=(*calibrations(cells), *measured, *pass_order(experiment, cells, measured, seed)),
        notes=(
            *design.notes,
            *(note for record in map(cell_record, supported) for note in record.notes),
            *dict.fromkeys(
                note
                for cell in cells
                for generator in (cell.generators if cell.unsupported is None else ())
                for note in get_tool(generator.tool).plan_notes(generator.target)
            ),
            *secret_notes(cells),
            *pass_notes(experiment, cells, capabilities),
            *hosts.inventory.limits,
            *(note for host in hosts for note in host.notes),
            *(sentence for plan in tuning for sentence in plan.sentences()),
            *_quotas_not_applied(experiment, roles, capabilities),
        ),
        tuning=tuning,
        tuning_required=required,
        observed={kind: cells_of_pass(each, cells) for kind, each in experiment.scenario.passes.items()},
    )
    return replace(plan, sudo=sudo_commands([host.spec for host in hosts], plan.whole_tuning)), list(
        {str(error): error for error in errors}.values()
    )


def require_roles(experiment: Experiment, inventory: Inventory) -> dict[str, tuple[str, ...]]:
    """Return the hosts of each role. Raises InputError if the inventory has fewer than the scenario needs."""
    roles: dict[str, tuple[str, ...]] = {}
    for name, role in experiment.scenario.roles.items():
        hosts = tuple(host.name for host in inventory.by_role(name))
        if len(hosts) < role.hosts:
            raise InputError(
                f"the scenario needs {units.counted(role.hosts, 'host')} in role {name!r}",
                why=f"the inventory has {len(hosts)}",
                hint=_missing_role_hint(experiment, name, inventory),
            )
        roles[name] = hosts
    return roles


def _missing_role_hint(experiment: Experiment, role: str, inventory: Inventory) -> str:
    if any(host.written is not None for host in inventory.hosts):
        return f"give a host `roles: [{role}]`"
    options = (
        f"--host {name}{number or ''}={name}"
        for name, wanted in experiment.scenario.roles.items()
        for number in range(wanted.hosts)
    )
    return f"`benchkit lab down`, then `benchkit lab up {' '.join(options)}`"


def _plan_cells(
    experiment: Experiment,
    roles: Roles,
    capabilities: Mapping[str, HostCapabilities],
    tuning: Mapping[str, tuple[TuningPlan, ...]],
) -> tuple[list[PlannedCell], list[HostError]]:
    """Return the cells on their hosts, without those that need a missing program, and an error for each of these.

    Cells with a missing load tool are unsupported instead if the baseline has another tool.
    """
    cells: list[PlannedCell] = []
    missing = _missing_tools(experiment, roles, capabilities)
    baseline = next(cell for cell in experiment.cells if cell.cell_id == experiment.baseline)
    is_optional = baseline.load.tool not in missing
    errors = [] if is_optional else [error for each in missing.values() for error in each]
    for cell in experiment.cells:
        if is_optional and cell.load.tool in missing:
            error = missing[cell.load.tool][0]
            cells.append(PlannedCell(cell, (), cell.load, (), "", f"{error.what} on {error.where}: {error.hint}"))
            continue
        try:
            cells.append(plan_cell(experiment, cell, roles, capabilities, tuning=tuning[cell.cell_id]))
        except HostError as error:
            errors.append(error)
    return cells, errors


def _missing_tools(
    experiment: Experiment, roles: Roles, capabilities: Mapping[str, HostCapabilities]
) -> dict[str, list[HostError]]:
    missing: dict[str, list[HostError]] = {}
    for tool in dict.fromkeys(cell.load.tool for cell in experiment.cells):
        program = get_tool(tool).required_program
        for host in roles[LOAD_ROLE]:
            if program is not None and program not in capabilities[host].facts.programs:
                missing.setdefault(tool, []).append(missing_program_error(capabilities[host], program, experiment))
    return missing


def secret_notes(cells: Iterable[PlannedCell]) -> tuple[str, ...]:
    """Return a warning for each load tool whose arguments contain a secret header value."""
    supported = [cell for cell in cells if cell.unsupported is None]
    exposed: dict[tuple[str, str], dict[str, None]] = {}
    for generator in (generator for cell in supported for generator in cell.generators):
        for name, secret in generator.load.secrets:
            if any(str(secret) in argument for argument in generator.argv):
                exposed.setdefault((generator.tool, generator.host), {})[name] = None
    return tuple(
        f"{tool} takes headers only as arguments. Anybody who may list processes on {host} can read {', '.join(names)} "
        "while it runs. Use k6, openloop, vegeta or wrk, which read headers from a private file."
        for (tool, host), names in exposed.items()
    )


def _nothing_runnable(experiment: Experiment, cells: Sequence[PlannedCell]) -> Iterator[InputError]:
    """Yield an error if these hosts support no cell: a run without trials is not a success."""
    if cells and all(cell.unsupported is not None for cell in cells):
        reasons = dict.fromkeys(cell.unsupported for cell in cells)
        name, scale = experiment.reference, experiment.scale
        yield InputError(
            "these hosts support none of the cells" if name is None else "these hosts support none of its cells",
            where=None if name is None else f"{name} at {scale} scale",
            why="; ".join(filter(None, reasons)),
            hint=f"run it on other hosts (-i), {'' if name is None else 'at another scale, '}or override what they lack "
            "with --set",
        )


def _quotas_not_applied(
    experiment: Experiment, roles: Roles, capabilities: Mapping[str, HostCapabilities]
) -> Iterator[str]:
    for name, role in experiment.scenario.roles.items():
        for host in roles[name] if role.quota is not None else ():
            facts = capabilities[host].facts
            if not facts.cpu_groups:
                yield (
                    f"{host}: not applied, {facts.user} may not create a control group with the CPU controller there: "
                    f"quota {role.quota:g} of role {name}"
                )


def build_services(cells: Iterable[PlannedCell]) -> list[PlannedCell]:
    """Build the services that have a build command; return the cells.

    A cell is unsupported if a git revision does not build, or its service uses nothing of the build. Raises InputError
    naming file, line and field if no cell remains, and for such faults of files that are not of a revision.
    """
    failures: dict[Built, str] = {}
    revision_faults: list[str] = []
    file_faults: list[str] = []
    built: list[PlannedCell] = []
    for cell in cells:
        why = None
        for service in cell.services if cell.unsupported is None else ():
            for content in builds_of(service):
                fault = _build_fault(service, content, failures)
                if fault is None:
                    continue
                field, reason = fault
                message = cell.spec.service(service.name).source.fault((field,), reason)
                if content.source is not None:
                    why = f"{service.name} at {content.source.ref}: {reason}"
                    revision_faults.append(message)
                else:
                    file_faults.append(message)
        built.append(cell if why is None else replace(cell, unsupported=why))
    has_cells = any(cell.unsupported is None for cell in built)
    raise_faults(file_faults if has_cells else [*file_faults, *revision_faults])
    return built


def _build_fault(service: Service, content: Built, known: dict[Built, str]) -> tuple[str, str] | None:
    """Build a part of a service, unless its build has failed before; return the option at fault and the reason."""
    if content not in known:
        try:
            content.read()
        except BenchkitError as error:
            known[content] = ": ".join(filter(None, (error.what, error.why)))
    if content in known:
        return "build", known[content]
    return unused_build(content, service) if isinstance(content, BuiltFolder) else None


def validate_engines(cells: Iterable[PlannedCell], hosts: Hosts) -> list[PlannedCell]:
    """Read the container engines of the cells; return the cells, unsupported if an engine cannot be used."""
    failures: dict[tuple[str, str], str] = {}
    validated: list[PlannedCell] = []
    for cell in cells:
        containers = [(service.host, service.container) for service in cell.services if service.container is not None]
        faults = (_engine_fault(container, hosts[host], failures) for host, container in containers)
        validated.append(replace(cell, unsupported=cell.unsupported or next(filter(None, faults), None)))
    return validated


def _engine_fault(container: Container, host: Host, known: dict[tuple[str, str], str]) -> str | None:
    """Add an engine to the facts of a host, once; return why it cannot be used, or None."""
    name = engine_name(container.engine)
    if name not in host.facts.engines and (host.name, name) not in known:
        try:
            host.add_engine(name, read_engine(host, name))
        except HostError as error:
            known[host.name, name] = str(error)
    return known.get((host.name, name))


def validate_configs(cells: Iterable[PlannedCell], hosts: Hosts) -> list[PlannedCell]:
    """Test every configuration of the cells; return the cells, unsupported if a host rejects an optional one.

    Raises InputError naming the scenario's file, line and field.
    """
    known: dict[str, str | None] = {}
    faults: list[str] = []
    validated: list[PlannedCell] = []
    for cell in cells:
        unsupported = cell.unsupported
        for service in cell.services if cell.unsupported is None else ():
            for test in service.config_tests:
                why = _rejection(service, test, hosts, known)
                if why is None:
                    continue
                message = f"{service.backend} on {service.host} rejects it: {why}"
                if test.is_optional:
                    unsupported = message
                else:
                    source = cell.spec.service(service.name).source
                    faults.append(source.fault((), message))
        validated.append(replace(cell, unsupported=unsupported))
    raise_faults(faults)
    return validated


def _rejection(service: Service, test: ConfigTest, hosts: Hosts, known: dict[str, str | None]) -> str | None:
    """Return why a program rejects a configuration, or None; those that differ only in folders are tested once."""
    text = repr([file.content for file in service.files if file.path == test.config])
    key = f"{service.host} {test.argv} {text}".replace(str(service.folder.parent), "…")
    if key not in known:
        known[key] = config_fault(hosts[service.host], service, test)
    return known[key]
