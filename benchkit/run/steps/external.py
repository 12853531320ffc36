"""The steps of a trial that handle servers which others deploy: their hooks, and the processes that are watched."""

from __future__ import annotations

import logging
import os
import re
import shlex
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from functools import partial
from pathlib import PurePosixPath

from benchkit.agent.undo import Undo
from benchkit.errors import HostError, HostStateError, LostError, ServiceError, collect_errors, raise_first
from benchkit.models.base import level_text
from benchkit.run.steps.state import Trial
from benchkit.services.deploy import LAST_LOG_LINES, RunningService
from benchkit.services.external import EXTERNAL, HERE, ExternalService, HookOptions, WatchOptions
from benchkit.services.service import Service, ServiceProcess
from benchkit.store.run_log import log_step

logger = logging.getLogger(__name__)

READY_PAUSE_S = 0.5
"""Time between two runs of the hook `ready`."""
RESTORE_S = 10.0
"""Time of a host for the restoration around a cleanup."""
OUTPUT_BYTES = 1 << 20


def deploy_external(trial: Trial) -> None:
    """Run the hooks `deploy` and `ready` of each server that others deploy; its cleanup is recorded first."""
    for server in trial.cell.spec.external:
        trial.deployed.append(server)
        cleanup = server.hooks.get("cleanup")
        if cleanup is not None and cleanup.on != HERE:
            host = trial.hosts[server.hosts[cleanup.on][0]]
            host.call(
                Undo.expect_cleanup,
                cleanup.run,
                hook_environment(trial, server),
                cleanup.within_s,
                _scope(trial, server),
            )
        if (deploy := server.hooks.get("deploy")) is not None:
            _require_success(trial, server, "deploy", deploy, _run_hook(trial, server, deploy, deploy.within_s))
        if (ready := server.hooks.get("ready")) is not None:
            _wait_until_ready(trial, server, ready)


def watch_external(trial: Trial) -> None:
    """Take the processes of servers that others deploy as services of the trial, which are never signalled."""
    for server in trial.cell.spec.external:
        for watch in server.watch:
            for name in server.hosts[watch.role]:
                trial.running_services.append(_watch(trial, server, watch, name))


def clean_up_external(trial: Trial) -> None:
    """Run the hook `cleanup` of each server whose hooks have begun, also where another one fails."""
    servers = list(trial.deployed)
    trial.deployed.clear()
    raise_first(collect_errors(partial(_clean_up, trial, server) for server in servers))


def hook_environment(trial: Trial, server: ExternalService) -> dict[str, str]:
    """Return the environment variables of a server's hooks: its URL, cell, block and levels."""
    levels = trial.cell.spec.levels.items()
    return {
        "BENCHKIT_URL": server.url,
        "BENCHKIT_CELL": trial.cell.cell_id,
        "BENCHKIT_BLOCK": str(trial.planned_trial.block),
        **{f"BENCHKIT_LEVEL_{re.sub('[^A-Z0-9]', '_', name.upper())}": level_text(level) for name, level in levels},
    }


def _scope(trial: Trial, server: ExternalService) -> str:
    return f"cleanup {trial.trial_id} {server.name}"


def _watch(trial: Trial, server: ExternalService, watch: WatchOptions, name: str) -> RunningService:
    host = trial.hosts[name]
    try:
        process = host.processes.watch(cgroup=watch.cgroup, unit=watch.unit, pattern=watch.pattern)
    except (LostError, HostStateError):
        raise
    except HostError as error:
        raise ServiceError(
            f"{server.name} has no processes to watch",
            where=name,
            why=error.why or error.what,
            hint="correct `watch`, or omit it: results then name what is unknown",
        ) from error
    several = len(server.watch) > 1 or len(server.hosts[watch.role]) > 1
    number = 1 + sum(each.service.backend == EXTERNAL for each in trial.running_services)
    service = Service(
        name=f"{server.name}-{number}" if several else server.name,
        backend=EXTERNAL,
        host=name,
        folder=PurePosixPath(host.facts.workdir),
        files=(),
        process=ServiceProcess(process.argv, tuple(host.facts.cpus), 0),
        endpoint=server.endpoint,
    )
    return RunningService(service, process, trial.folder / f"{service.name}.log")


def _wait_until_ready(trial: Trial, server: ExternalService, hook: HookOptions) -> None:
    deadline = time.monotonic() + hook.within_s
    while True:
        failure = _run_hook(trial, server, hook, max(READY_PAUSE_S, deadline - time.monotonic()))
        if failure is None:
            return
        if time.monotonic() + READY_PAUSE_S > deadline:
            _require_success(trial, server, "ready", hook, f"not within {hook.within_s:g} s: {failure}")
        time.sleep(READY_PAUSE_S)


def _clean_up(trial: Trial, server: ExternalService) -> None:
    hook = server.hooks.get("cleanup")
    if hook is None:
        return
    with log_step(logger, f"cleanup of {server.name}", hook.on):
        if hook.on == HERE:
            _require_success(trial, server, "cleanup", hook, _run_hook(trial, server, hook, hook.within_s))
        else:
            host = trial.hosts[server.hosts[hook.on][0]]
            host.changes.run_cleanup(_scope(trial, server), hook.within_s + RESTORE_S)


def _require_success(trial: Trial, server: ExternalService, name: str, hook: HookOptions, failure: str | None) -> None:
    if failure is None:
        return
    variables = " ".join(f"{key}={shlex.quote(value)}" for key, value in hook_environment(trial, server).items())
    raise ServiceError(
        f"the hook `{name}` of {server.name} failed: {shlex.join(hook.run)}",
        where="this machine" if hook.on == HERE else server.hosts[hook.on][0],
        why=failure,
        hint=f"run it by hand: {variables} {shlex.join(hook.run)}",
    )


def _run_hook(trial: Trial, server: ExternalService, hook: HookOptions, timeout_s: float) -> str | None:
    """Run a hook; return why it failed, with its last lines, or None."""
    environment = hook_environment(trial, server)
    if hook.on == HERE:
        return _run_here(hook.run, environment, timeout_s)
    host = trial.hosts[server.hosts[hook.on][0]]
    done = host.processes.run(hook.run, env=environment, timeout_s=timeout_s, max_bytes=OUTPUT_BYTES)
    if done.ok:
        return None
    ended = f"it did not end within {timeout_s:.3g} s" if done.timed_out else str(done.ended)
    return _with_last_lines(ended, done.stdout + done.stderr)


def _run_here(argv: tuple[str, ...], environment: Mapping[str, str], timeout_s: float) -> str | None:
    with tempfile.TemporaryFile() as output:
        try:
            process = subprocess.Popen(
                argv,
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            return f"cannot start {argv[0]}: {error.strerror}"
        try:
            code = process.wait(timeout_s)
        except BaseException as error:  # Ctrl-C too
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            ended = f"it did not end within {timeout_s:.3g} s"
        else:
            if code == 0:
                return None
            ended = f"exit code {code}" if code > 0 else f"signal {signal.Signals(-code).name}"
        output.seek(max(0, output.seek(0, os.SEEK_END) - OUTPUT_BYTES))
        return _with_last_lines(ended, output.read())


def _with_last_lines(ended: str, output: bytes) -> str:
    lines = output.decode(errors="replace").strip().splitlines()[-LAST_LOG_LINES:]
    return "\n    ".join([f"{ended}:", *lines]) if lines else ended
