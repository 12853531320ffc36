"""Secret header values in a plan: those that are missing, those that others can read, and how to give them better."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from benchkit.errors import InputError
from benchkit.loadtools.generators.generator import Generator
from benchkit.plan.model import PlannedCell
from benchkit.scenario.cells import require_secrets
from benchkit.scenario.experiment import Experiment


def missing_secrets(experiment: Experiment) -> Iterator[InputError]:
    """Yield an error where the controller cannot read a value: `plan` shows it, a run does not start."""
    try:
        require_secrets(experiment)
    except InputError as error:
        yield error


def secret_notes(cells: Iterable[PlannedCell]) -> tuple[str, ...]:
    """Return a sentence for each way in which somebody else could read a secret header value, with the way out."""
    supported = [cell for cell in cells if cell.unsupported is None]
    given = {name: secret for cell in supported for name, secret in cell.load.secrets if secret.is_given}
    in_clear = (
        f"{name} is given in clear, where it can be read; runs store {secret} instead. In a scenario write "
        f"`{name}: {secret}`, on the command line --header-env '{name}: {secret.env}'."
        for name, secret in given.items()
    )
    exposed: dict[tuple[str, str], dict[str, None]] = {}
    for generator in (generator for cell in supported for generator in cell.generators):
        for name in _arguments(generator):
            exposed.setdefault((generator.tool, generator.host), {})[name] = None
    in_arguments = (
        f"{tool} takes headers as arguments alone: everybody who may list processes on {host} can read {', '.join(names)} "
        "while it runs. k6, openloop, vegeta and wrk read headers from a private file."
        for (tool, host), names in exposed.items()
    )
    return (*in_clear, *in_arguments)


def _arguments(generator: Generator) -> Iterator[str]:
    for name, secret in generator.load.secrets:
        if any(str(secret) in argument for argument in generator.argv):
            yield name
