"""The plan of a run on several testbeds: one plan for each, and one for all, if the testbeds are equal enough.

The blocks of the run are divided among the testbeds while it runs: one that has finished a block takes the next. So the
cells of a table come from all testbeds. This is fair only where these are equal in everything that `compared_facts`
returns, host by host: the n-th host of a role on each testbed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from benchkit.errors import BenchkitError, InputError
from benchkit.judge.run_differences import machine_facts
from benchkit.models.base import TESTBED, cell_id
from benchkit.models.design import control_of, controlled
from benchkit.models.facts import Interface, RecordedFacts
from benchkit.plan.model import PlannedCell, RunPlan
from benchkit.units import counted

MAX_LISTED = 12
"""Number of differences that an error lists; it counts the others."""

SEQUENTIAL = (
    "The design is sequential: its blocks are not run whole, so that they cannot be divided among the testbeds, and only "
    "testbed {used} runs."
)


Facts = Mapping[str, Mapping[str, str]]
"""Compared facts of each host, by its name."""


def compared_facts(facts: RecordedFacts, programs: Collection[str] = ()) -> dict[str, str]:
    """Return the facts in which hosts of equal testbeds agree, as text by name; a fact that is unknown is left out.

    Of the machine: architecture, processor, numbers of usable CPUs and of cores, memory in two digits, link,
    virtualisation. Of the system: kernel, distribution, C library, CPU frequency governor, CPU quotas, open files, MTU
    and speed of its interfaces. Further the versions of the used `programs`, and kernel settings. Names, addresses,
    users, folders, clocks, and the numbers of its CPUs may differ.
    """
    values = {
        "kernel": facts.kernel,
        "distribution": facts.distribution,
        "glibc": facts.glibc,
        "governor": facts.governor,
        "CPU quotas": facts.cpu_groups,
        "open files": facts.nofile_hard,
        "interfaces": "; ".join(sorted(_describe_interface(each) for each in facts.interfaces if each.up)),
        **{f"version of {name}": facts.programs[name].version for name in programs if name in facts.programs},
        **facts.sysctls,
    }
    return machine_facts(facts) | {name: str(value) for name, value in values.items() if value not in (None, "")}


def _describe_interface(interface: Interface) -> str:
    speed = "" if interface.virtual is not False or not interface.speed_bps else f", {interface.speed_bps:g} bit/s"
    return f"MTU {interface.mtu}{speed}"


def combine_plans(plans: Sequence[RunPlan]) -> RunPlan:
    """Return the plan of a run whose blocks are divided among the testbeds of these plans, the first one first."""
    first = plans[0]
    if first.design == "sequential":
        return replace(first, notes=(*first.notes, SEQUENTIAL.format(used=first.testbed)))
    if first.experiment.scenario.testbeds == "factor":
        plans = [_with_factor(plan, number, len(plans)) for number, plan in enumerate(plans)]
        trials = sorted((trial for plan in plans for trial in plan.planned_trials), key=lambda trial: trial.block)
        cells = tuple(cell for plan in plans for cell in plan.cells)
        groups = zip(*(plan.groups for plan in plans), strict=False)  # unequal numbers are an error of the run
        first = replace(
            first,
            planned_trials=tuple(trials),
            groups=tuple(chain.from_iterable(groups)),
            observed={kind: tuple(each for p in plans for each in p.observed[kind]) for kind in first.observed},
        )
    else:
        cells = tuple(_with_all_tuning(cell, plans) for cell in first.cells)
    return replace(
        first,
        testbed=None,
        divided=tuple(plans),
        roles={role: tuple(name for plan in plans for name in plan.roles[role]) for role in first.roles},
        cells=cells,
        tuning=tuple(each for plan in plans for each in plan.tuning),
        tuning_required=frozenset().union(*(plan.tuning_required for plan in plans)),
        sudo=tuple(each for plan in plans for each in plan.sudo),
        notes=tuple(dict.fromkeys(note for plan in plans for note in plan.notes)),
    )


def errors_of_testbeds(
    plans: Sequence[RunPlan], facts: Facts, kernels: Mapping[str, str], *, are_runnable: bool = True
) -> Iterator[BenchkitError]:
    """Yield the errors that prevent a run on these testbeds together: what differs between them, above all.

    `kernels` names for each host the host through which its kernel is changed: another one where they share a machine.
    `are_runnable`: each testbed can run the scenario alone; otherwise they are not compared, as they differ in that.
    """
    if plans[0].design == "sequential":
        return
    shared = list(_shared_kernels(plans, kernels))
    yield from shared
    if plans[0].experiment.scenario.testbeds == "factor":
        yield from _factor_errors(plans)
    elif are_runnable and not shared:
        yield from _inequalities(plans, facts)


def _with_factor(plan: RunPlan, number: int, testbeds: int) -> RunPlan:
    """Return the plan of a testbed with the testbed as a level of its cells, and blocks that no other testbed has."""
    cells = {cell.cell_id: _with_level(cell, str(plan.testbed)) for cell in plan.cells}
    names = {before: cell.cell_id for before, cell in cells.items()}
    groups = plan.groups or (tuple(cell.cell_id for cell in plan.cells if cell.unsupported is None),)
    return replace(
        plan,
        groups=tuple(tuple(names[cell_id] for cell_id in group) for group in groups),
        cells=tuple(replace(cell, same_as=names.get(cell.same_as or "")) for cell in cells.values()),
        observed={
            kind: tuple(_with_level(each, str(plan.testbed)) for each in of) for kind, of in plan.observed.items()
        },
        planned_trials=tuple(
            replace(trial, cell_id=names[trial.cell_id], block=(trial.block - 1) * testbeds + number + 1)
            for trial in plan.planned_trials
        ),
    )


def _with_level(cell: PlannedCell, testbed: str) -> PlannedCell:
    levels = {**cell.spec.levels, TESTBED: testbed}
    name = cell_id(levels)
    is_control = controlled(cell.cell_id) is not None
    return replace(cell, spec=replace(cell.spec, cell_id=control_of(name) if is_control else name, levels=levels))


def _factor_errors(plans: Sequence[RunPlan]) -> Iterator[BenchkitError]:
    plan = plans[0]
    where = plan.experiment.scenario.name
    if len({(each.design, len(each.groups)) for each in plans}) > 1:
        yield InputError(
            "the testbeds take different designs, or numbers of groups of cells",
            where=where,
            why="; ".join(f"{each.testbed}: {each.design} ({each.design_reason})" for each in plans),
            hint="make them equal, or run with `--set design=blocks`",
        )
    if any(TESTBED in cell.spec.levels for cell in plan.cells):
        yield InputError(f"the scenario has a factor {TESTBED!r} of its own", where=where, hint="give it another name")
    if any(trial.kind == "calibrate" for trial in plan.planned_trials):
        yield InputError(
            "a target rate that the run finds itself would hold for one testbed only",
            where=where,
            why="the scenario has `testbeds: factor`",
            hint="state the rate in requests per second",
        )


def _with_all_tuning(cell: PlannedCell, plans: Sequence[RunPlan]) -> PlannedCell:
    same = [other for plan in plans for other in plan.cells if other.cell_id == cell.cell_id]
    return replace(cell, tuning=tuple(each for other in same for each in other.tuning))


def _inequalities(plans: Sequence[RunPlan], facts: Facts) -> Iterator[BenchkitError]:
    differences = [text for plan in plans[1:] for text in _differences(plans[0], plan, facts)]
    if differences:
        more = f"; and {len(differences) - MAX_LISTED} more" if len(differences) > MAX_LISTED else ""
        yield InputError(
            "the testbeds are not equal, so that blocks cannot be divided among them",
            where=f"testbeds {', '.join(str(plan.testbed) for plan in plans)}",
            why="; ".join(differences[:MAX_LISTED]) + more,
            hint="make them equal, or keep the testbed as a factor with `--set testbeds=factor`",
        )


def _differences(one: RunPlan, other: RunPlan, facts: Facts) -> Iterator[str]:
    for role, names in one.roles.items():
        others = other.roles[role]
        if len(names) != len(others):
            yield (
                f"{counted(len(names), 'host')} in role {role} on testbed {one.testbed}, "
                f"{counted(len(others), 'host')} on {other.testbed}"
            )
        for name, name_there in zip(names, others, strict=False):
            here, there = _planned_facts(one, name, facts), _planned_facts(other, name_there, facts)
            for fact in sorted({*here, *there}):
                if here.get(fact) != there.get(fact):
                    values = here.get(fact, "unknown"), there.get(fact, "unknown")
                    yield f"{fact}: {values[0]} on {name}, {values[1]} on {name_there}"
    if one.design != other.design:
        yield f"design {one.design} on testbed {one.testbed}, {other.design} on {other.testbed} ({other.design_reason})"
    elif one.groups != other.groups:
        yield f"groups of cells: {one.design_reason} on testbed {one.testbed}, {other.design_reason} on {other.testbed}"
    elif one.planned_trials != other.planned_trials:
        supported = [{cell.cell_id for cell in plan.cells if cell.unsupported is None} for plan in (one, other)]
        cells = ", ".join(sorted(supported[0] ^ supported[1])) or "in another order"
        yield f"cells that only one of testbeds {one.testbed} and {other.testbed} supports: {cells}"


def _planned_facts(plan: RunPlan, name: str, facts: Facts) -> dict[str, str]:
    tuned = {key: value for each in plan.tuning if each.host == name for key, value in each.values.items()}
    return {**facts[name], **tuned}


def _shared_kernels(plans: Sequence[RunPlan], kernels: Mapping[str, str]) -> Iterator[BenchkitError]:
    """Yield an error for testbeds on one machine whose kernel is changed: each would restore the other's changes."""
    testbed_of = {name: plan.testbed for plan in plans for names in plan.roles.values() for name in names}
    for plan in plans:
        for name in dict.fromkeys(each.host for each in plan.whole_tuning if each.values):
            machine = kernels[name]
            if testbed_of.get(machine) not in (None, plan.testbed):
                yield InputError(
                    f"testbeds {testbed_of[machine]} and {plan.testbed} change the kernel settings of one machine",
                    where=f"{machine} and {name}",
                    hint="give each testbed machines of its own, or run without tuning",
                )
