"""Containers of an engine on the host: the record of what a connection creates there, and the removal.

Containers, networks and volumes that benchkit creates have the label of its connection; the record names the images
that it loads. So everything is found and removed even where the agent was killed.
"""

from __future__ import annotations

import os
import re
import shutil
import threading
from pathlib import Path
from typing import Dict, Iterator, List, Optional, Sequence, Tuple

from benchkit.agent.cgroups import remove_folders
from benchkit.agent.common import parse_mounts, read_text
from benchkit.agent.frames import JsonObject
from benchkit.agent.operations import operation
from benchkit.agent.records import Records
from benchkit.agent.settings import WRITE_S, RunCommand

CONTAINERS = "containers"
"""Kind of a record of containers."""
LABEL = "benchkit.owner"
"""Label of everything that benchkit creates with an engine; its value names the connection."""

COMMAND_S = 30.0
_RULE = re.compile(r"-A (.*NETAVARK.*)")
_CHAIN = re.compile(r"-N (NETAVARK\S*)")
_TABLES = ("nat", "filter", "mangle")


class Containers:
    """The containers that this agent's connection starts."""

    def __init__(self, records: Records, run: RunCommand) -> None:
        self._records = records
        self._run = run
        self._lock = threading.Lock()
        self._tracked: Dict[str, JsonObject] = {}
        self._paths: Dict[str, Path] = {}

    @operation(within_s=WRITE_S)
    def track(self, engine: str, images: Sequence[str] = ()) -> Tuple[str, str]:
        """Record that an engine is about to create containers and load images; return the marks that they must have.

        The marks are the label `NAME=VALUE` of containers, networks and volumes, and the control group of containers,
        below the root group. The agent's end or `Undo.restore` removes everything with these marks.
        """
        with self._lock:
            change = self._tracked.get(engine)
            if change is None:
                owner = re.sub(r"[^a-z0-9.-]", "-", self._records.tag.strip(".").lower())
                change = {
                    "engine": engine,
                    "label": f"{LABEL}={owner}",
                    "parent": f"benchkit-{owner.replace('.', '-')}",
                    "images": [],
                    "had_rules": any(_CHAIN.search(_rules(self._run, table)) for table in _TABLES),
                }
            new = [name for name in images if name not in change["images"]]
            if engine not in self._tracked or new:
                change = {**change, "images": [*change["images"], *new]}
                self._paths[engine] = self._records.note(CONTAINERS, change, path=self._paths.get(engine))
                self._tracked[engine] = change
        return change["label"], change["parent"]


def remove_containers(record: JsonObject, run: RunCommand) -> List[str]:
    """Remove everything that a record names, and verify the removal; return failures."""
    engine, label = record["engine"], record["label"]
    if shutil.which(engine) is None and not os.access(engine, os.X_OK):
        return [f"{engine} is gone, so that its containers cannot be removed"]
    filters = ["--filter", f"label={label}"]
    failures: List[str] = []
    for kind, listing, removal in (
        ("containers", ["ps", "-aq"], ["rm", "-f", "-v"]),
        ("networks", ["network", "ls", "-q"], ["network", "rm"]),
        ("volumes", ["volume", "ls", "-q"], ["volume", "rm", "-f"]),
    ):
        output = ""
        found = _listed(run, [engine, *listing, *filters])
        if found:
            _, output = run([engine, *removal, *found], COMMAND_S)
            found = _listed(run, [engine, *listing, *filters])
        if found is None:
            failures.append(f"the {kind} of {engine} could not be listed: is it running?")
        elif found:
            failures.append(f"{kind} of {engine} could not be removed: {', '.join(found)}: {output.strip()}")
    for image in record["images"]:
        inspect = [engine, "image", "inspect", "-f", "{{.Id}}", image]
        if run(inspect, COMMAND_S)[0] == 0:
            code, output = run([engine, "image", "rm", image], COMMAND_S)
            if code != 0 and run(inspect, COMMAND_S)[0] == 0:  # `rm` also fails where another build has removed a layer
                failures.append(f"the image {image} could not be removed: {output.strip()}")
    failures += [failure for folder in _parents(record["parent"]) for failure in remove_folders(folder)]
    if not failures and not record["had_rules"] and not _listed(run, [engine, "ps", "-q"]):
        _remove_rules(run)
    return failures


def _listed(run: RunCommand, argv: List[str]) -> Optional[List[str]]:
    code, output = run(argv, COMMAND_S)
    return re.findall(r"^[0-9a-f]{12,64}$|^[A-Za-z0-9][\w.-]*$", output, re.MULTILINE) if code == 0 else None


def _parents(parent: str) -> Iterator[Path]:
    for mount in parse_mounts(read_text("/proc/self/mountinfo") or ""):
        if mount.kind.startswith("cgroup") and (mount.point / parent).is_dir():
            yield mount.point / parent


def _rules(run: RunCommand, table: str) -> str:
    if shutil.which("iptables") is None:
        return ""
    code, output = run(["iptables", "-w", "-t", table, "-S"], COMMAND_S)
    return output if code == 0 else ""


def _remove_rules(run: RunCommand) -> None:
    """Remove the chains that netavark leaves behind, once no container is running that could need them."""
    for table in _TABLES:
        rules = _rules(run, table)
        base = ["iptables", "-w", "-t", table]
        for rule in _RULE.findall(rules):
            run([*base, "-D", *(word.strip('"') for word in re.findall(r'"[^"]*"|\S+', rule))], COMMAND_S)
        for chain in _CHAIN.findall(rules):
            run([*base, "-X", chain], COMMAND_S)
