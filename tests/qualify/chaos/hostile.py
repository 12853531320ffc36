"""Hostile text in every field that others write: scenarios, inventories, facts of hosts.

A case is a document with one of its values, or names, replaced. The result must be an error of benchkit's own or a
plan; never a traceback, a file or an executed command.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchkit.document import parse_document, read_document
from tests.support.paths import ROOT

ValuePath = tuple[str | int, ...]

TEXTS = (
    "$(touch {canary})",
    "`touch {canary}`",
    "; touch {canary};",
    "| touch {canary}",
    "x && touch {canary} #",
    "\ntouch {canary}\n",
    "'; touch {canary}; '",
    '"; touch {canary}; "',
    '\\"; touch {canary} #',
    "{{ cycler.__init__.__globals__.os.system('touch {canary}') }}",
    "{% set x = self._TemplateReference__context %}{{ x }}",
    "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "{{ 10 ** 10 ** 8 }}",
    "${IFS}touch${IFS}{canary}",
    "../../../../../../../..{canary}",
    "..",
    "a/../../../b",
    "{canary}",
    "/etc/passwd",
    "~root/.ssh/authorized_keys",
    "-oProxyCommand=touch {canary}",
    "--help",
    "-rf /",
    "\x00",
    "a\x00b",
    "\x1b[2J\x1b]0;owned\x07",
    "x\r\nHost: evil\r\n\r\nGET /",
    "\u202egnp.exe",
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</title></style><script>alert(1)</script>",
    "%s%n%x{0.__class__}",
    "!!python/object/apply:os.system ['touch {canary}']",
    "; include /etc/passwd;",
    "8080; } http { server { listen 81; } }",
    "A" * 5000,
    "",
    " ",
    "\t",
    "💥",
    "1e999",
    "nan",
    "-1",
    "999999999999999999999",
    "null",
)


def texts(canary: Path) -> list[str]:
    """Return the texts; the file `canary` exists afterwards if one of them was executed."""
    return [text.replace("{canary}", str(canary)) for text in TEXTS]


def value_paths(value: Any, here: ValuePath = ()) -> Iterator[ValuePath]:  # noqa: ANN401 - any document
    """Yield the path of each value and each name in a document."""
    yield here
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from value_paths(inner, (*here, key))
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            yield from value_paths(inner, (*here, i))


def replace_value(document: Any, place: ValuePath, text: str) -> Any:  # noqa: ANN401
    """Return the document with another value at a path."""
    made = copy.deepcopy(document)
    at = made
    for part in place[:-1]:
        at = at[part]
    at[place[-1]] = text
    return made


def replace_name(document: Any, place: ValuePath, text: str) -> Any:  # noqa: ANN401
    """Return the document with another name at a path."""
    made = copy.deepcopy(document)
    at = made
    for part in place[:-1]:
        at = at[part]
    at[text] = at.pop(place[-1])
    return made


def cases(document: Any, hostile: list[str]) -> list[tuple[str, ValuePath, str]]:  # noqa: ANN401
    """Return all cases of a document: the kind of replacement, its path and its text."""
    found: list[tuple[str, ValuePath, str]] = []
    for place in value_paths(document):
        if place:
            found += [("value", place, text) for text in hostile]
            if isinstance(place[-1], str):
                found += [("name", place, text) for text in hostile]
    return found


def sample_cases(document: Any, hostile: list[str], count: int | None, seed: int) -> Iterator[Any]:  # noqa: ANN401
    """Yield `count` of the cases of a document, or all of them."""
    everything = cases(document, hostile)
    if count is not None and count < len(everything):
        everything = random.Random(seed).sample(everything, count)  # noqa: S311 - cases, no secret
    for kind, place, text in everything:
        yield (replace_value if kind == "value" else replace_name)(document, place, text)


def to_yaml(document: Any) -> str:  # noqa: ANN401
    """Return a document as text; JSON is YAML."""
    return json.dumps(document, ensure_ascii=True)


def scenarios() -> dict[str, Any]:
    """Return the shipped scenarios, as data."""
    folder = ROOT / "scenarios"
    return {path.stem: read_document(path).data for path in sorted(folder.glob("*.yaml"))}


INVENTORY = """
hosts:
  server: {address: 192.0.2.10, user: bench, port: 2222, roles: [sut], jump: gate, sudo: true, workdir: ~/work,
    service_address: 192.0.2.11, link_bps: 1.0e9, programs: {nginx: /opt/nginx/sbin/nginx}}
  gate: {address: gate.example, roles: [], known_hosts: /etc/hostname, identity: /etc/hostname}
  client: {address: "2001:db8::1", jump: "me@gate.example:22", roles: [load]}
"""


def inventory() -> Any:  # noqa: ANN401
    """Return an inventory that uses every field, as data."""
    return parse_document(INVENTORY, "inventory").data
