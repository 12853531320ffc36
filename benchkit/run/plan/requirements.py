"""What can be said of a scenario before there are hosts: whether it makes sense, and which programs it needs."""

from __future__ import annotations

from benchkit.errors import InputError, suggestion
from benchkit.load.tools.registry import get_tool
from benchkit.run.plan.model import LOAD_ROLE
from benchkit.run.plan.profile_pass import check_profile, profiling_programs
from benchkit.scenario.cell_load import check_tools, typed_load
from benchkit.scenario.cell_services import typed_services
from benchkit.scenario.model import Scenario
from benchkit.scenario.read import Experiment
from benchkit.scenario.tuning_profiles import check_tuning


def check_experiment(experiment: Experiment) -> None:
    """Check everything that needs no host. Raises InputError naming file, line and field."""
    check_tools(experiment.scenario, experiment.document)
    hosts = load_hosts(experiment.scenario)
    serving: set[str] = set()
    for cell in experiment.cells:
        serving.update(service.options.role for service in typed_services(cell, experiment.scenario))
        typed_load(cell, hosts)
    for name, role in experiment.scenario.roles.items():
        if role.quota is not None and name not in serving:
            said = f"a quota holds servers back, and no service has the role {name!r}"
            raise InputError(experiment.document.fault(("roles", name, "quota"), said))
    check_profile(experiment, hosts)
    check_tuning(experiment.scenario, experiment.document)
    if LOAD_ROLE not in experiment.scenario.roles:
        allowed = suggestion(LOAD_ROLE, experiment.scenario.roles)
        raise InputError(experiment.document.fault(("roles",), f"no role {LOAD_ROLE!r} to drive the load; {allowed}"))


def needed_programs(experiment: Experiment) -> dict[str, set[str]]:
    """The programs that a scenario needs on the hosts of each role."""
    needed: dict[str, set[str]] = {}
    hosts = load_hosts(experiment.scenario)
    for cell in experiment.cells:
        tool = get_tool(typed_load(cell, hosts).tool)
        if tool.program is None:
            needed.setdefault(LOAD_ROLE, set()).add(tool.binary)
        for service in typed_services(cell, experiment.scenario):
            needed.setdefault(service.options.role, set()).update(service.backend.programs(service.options))
    for role, programs in profiling_programs(experiment).items():
        needed.setdefault(role, set()).update(programs)
    return needed


def load_hosts(scenario: Scenario) -> int:
    """How many load hosts there are at least, before an inventory says how many."""
    return scenario.roles[LOAD_ROLE].hosts if LOAD_ROLE in scenario.roles else 1
