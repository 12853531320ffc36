"""Gate result of a comparison as JUnit XML, for CI servers."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections import defaultdict

from benchkit.comparison.comparison import Comparison
from benchkit.comparison.gate import GateLine
from benchkit.errors import InputError

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot represent, even escaped (W3C, Extensible Markup Language 1.0, section 2.2)."""


def junit(comparison: Comparison) -> str:
    """Return the gate's lines as test cases, a suite for each metric: regressed is a failure, inconclusive an error.

    The notices are the output of every suite. Raises InputError for a comparison without a gate.
    """
    gate = comparison.gate
    if gate is None:
        raise InputError("JUnit XML is about a gate", hint="add --gate, --thresholds FILE or --threshold METRIC=SHARE")
    by_metric: defaultdict[str, list[GateLine]] = defaultdict(list)
    for line in gate.lines:
        by_metric[line.metric].append(line)
    root = ET.Element("testsuites", {"name": "benchkit", **_counts(list(gate.lines))})
    runs = " -> ".join(side.run_id for side in comparison.runs)
    for metric, lines in (by_metric or {"none": []}).items():
        suite = ET.SubElement(root, "testsuite", {"name": _xml(metric), **_counts(lines)})
        properties = ET.SubElement(suite, "properties")
        for name, value in (("runs", runs), ("verdict", gate.verdict), ("scenario", comparison.runs[-1].scenario)):
            ET.SubElement(properties, "property", {"name": name, "value": _xml(value)})
        for line in lines:
            _case(suite, line)
        if comparison.notices:
            ET.SubElement(suite, "system-out").text = _xml("\n".join(comparison.notices))
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _case(suite: ET.Element, line: GateLine) -> None:
    name = line.cell_id if line.cell_id == line.baseline else f"{line.cell_id} over {line.baseline}"
    case = ET.SubElement(suite, "testcase", {"classname": _xml(line.metric), "name": _xml(name), "time": "0"})
    kinds = {"regressed": "failure", "inconclusive": "error"}
    if line.verdict in kinds:
        found = ET.SubElement(case, kinds[line.verdict], {"type": line.verdict, "message": _xml(line.full_text)})
        found.text = _xml(line.full_text)
    if line.remarks:
        ET.SubElement(case, "system-out").text = _xml("\n".join(line.remarks))


def _counts(lines: list[GateLine]) -> dict[str, str]:
    verdicts = [line.verdict for line in lines]
    return {
        "tests": str(len(lines)),
        "failures": str(verdicts.count("regressed")),
        "errors": str(verdicts.count("inconclusive")),
        "skipped": "0",
        "time": "0",
    }


def _xml(text: str) -> str:
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)
