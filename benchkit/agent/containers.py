"""Containers of an engine on the host: the record of what a connection makes with it, and its removal.

Everything that benchkit makes with an engine (containers, networks, volumes) has the label of its connection; images
that it loads are on the record. So all of it is found and removed also where the agent was killed.
"""

from __future__ import annotations

import os
import re
import shutil
import threading
import time
from pathlib import Path
from typing import Dict, Iterator, List, Optional

from benchkit.agent.common import poll_until, read_text
from benchkit.agent.frames import JsonObject
from benchkit.agent.operations import FindCgroup, KeptContainers, TrackContainers
from benchkit.agent.records import Records
from benchkit.agent.settings import RunCommand

CONTAINERS = "containers"
"""Kind of their record."""
LABEL = "benchkit.owner"
"""Label of all that benchkit makes with an engine; its value names the connection."""

COMMAND_S = 30.0
GROUP_S = 3.0
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

    def track(self, wanted: TrackContainers) -> KeptContainers:
        """Record that an engine is used, and the images that it is about to load; return label and parent group."""
        with self._lock:
            change = self._tracked.get(wanted.engine)
            if change is None:
                owner = re.sub(r"[^a-z0-9.-]", "-", self._records.tag.strip(".").lower())
                change = {
                    "engine": wanted.engine,
                    "label": f"{LABEL}={owner}",
                    "parent": f"benchkit-{owner.replace('.', '-')}",
                    "images": [],
                    "had_rules": _has_rules(self._run),
                }
            images = [*change["images"], *(name for name in wanted.images if name not in change["images"])]
            if wanted.engine not in self._tracked or images != change["images"]:
                change = {**change, "images": images}
                self._paths[wanted.engine] = self._records.note(CONTAINERS, change, path=self._paths.get(wanted.engine))
                self._tracked[wanted.engine] = change
        return KeptContainers(change["label"], change["parent"])


def find_cgroup(wanted: FindCgroup) -> Optional[str]:
    """Return the control group that counts a process's CPU time, or its group of version 2; None where it has ended."""
    membership = read_text(f"/proc/{wanted.pid}/cgroup")
    return None if membership is None else group_path(membership)


def group_path(membership: str) -> Optional[str]:
    """Return the group in the text of /proc/PID/cgroup (cgroups(7)): it counts CPU time, or is of version 2; pure."""
    fields = [line.split(":", 2) for line in membership.splitlines()]
    paths = {name: path for _, names, path in fields for name in names.split(",")}
    return next((paths[name] for name in ("cpuacct", "cpu", "") if name in paths), None)


def remove_containers(record: JsonObject, run: RunCommand) -> List[str]:
    """Remove what a record names, and verify it; return failures."""
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
            if code != 0 and run(inspect, COMMAND_S)[0] == 0:  # it fails on a layer that another build has removed
                failures.append(f"the image {image} could not be removed: {output.strip()}")
    failures += _remove_groups(record["parent"])
    if not failures and not record["had_rules"] and not _listed(run, [engine, "ps", "-q"]):
        _remove_rules(run)
    return failures


def _listed(run: RunCommand, argv: List[str]) -> Optional[List[str]]:
    code, output = run(argv, COMMAND_S)
    return re.findall(r"^[0-9a-f]{12,64}$|^[A-Za-z0-9][\w.-]*$", output, re.MULTILINE) if code == 0 else None


def _remove_groups(parent: str) -> List[str]:
    """Remove the parent group of the containers in every hierarchy, which the engine leaves; return failures."""
    failures = []
    for folder in _parents(parent):
        groups = sorted((Path(each) for each, _, _ in os.walk(str(folder))), reverse=True)
        why: Optional[str] = None
        for _ in poll_until(time.monotonic() + GROUP_S):
            why = None
            for group in groups:
                try:
                    group.rmdir()
                except FileNotFoundError:
                    pass
                except OSError as error:
                    why = error.strerror
            if why is None:
                break
        if why is not None:
            failures.append(f"the control group {folder} could not be removed: {why}")
    return failures


def _parents(parent: str) -> Iterator[Path]:
    for line in (read_text("/proc/self/mountinfo") or "").splitlines():
        before, _, rest = line.partition(" - ")
        if rest.startswith("cgroup"):
            folder = Path(before.split()[4]) / parent
            if folder.is_dir():
                yield folder


def _has_rules(run: RunCommand) -> bool:
    return any(_CHAIN.search(_rules(run, table)) for table in _TABLES)


def _rules(run: RunCommand, table: str) -> str:
    """Return the rules of a table; none where the host has no iptables, or this user may not read them."""
    if shutil.which("iptables") is None:
        return ""
    code, output = run(["iptables", "-w", "-t", table, "-S"], COMMAND_S)
    return output if code == 0 else ""


def _remove_rules(run: RunCommand) -> None:
    """Remove the chains that netavark made and leaves, now that there is no container that they could be for."""
    for table in _TABLES:
        rules = _rules(run, table)
        base = ["iptables", "-w", "-t", table]
        for rule in _RULE.findall(rules):
            run([*base, "-D", *_words(rule)], COMMAND_S)
        for chain in _CHAIN.findall(rules):
            run([*base, "-X", chain], COMMAND_S)


def _words(rule: str) -> List[str]:
    return [word.strip('"') for word in re.findall(r'"[^"]*"|\S+', rule)]
