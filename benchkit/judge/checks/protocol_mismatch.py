"""Check protocol-mismatch: another protocol was measured than the one asked for."""

from __future__ import annotations

from collections.abc import Iterator

from benchkit.judge.check import ALL, Check, CheckResult, Finding, SkippedCheck
from benchkit.judge.evidence import Evidence
from benchkit.models.protocol import Negotiated
from benchkit.models.thresholds import Thresholds
from benchkit.models.trial import TrialRecord


def of_trial(evidence: Evidence, _thresholds: Thresholds) -> CheckResult:
    """Compare what the probes and the load tool negotiated with what the scenario wants of the entry.

    Both ends choose the protocol together, so a server without HTTP/2 is measured over HTTP/1.1 without any error.
    """
    record = evidence.record
    by_probe = [probe.negotiated for probe in record.probes]
    by_tool = [None if generator.result is None else generator.result.negotiated for generator in record.generators]
    if not any(by_probe):
        return () if record.protocol == "http1" else SkippedCheck(why="the probe recorded no protocol")
    seen = [
        f"{side} negotiated {', '.join(differences)}"
        for side, stated in (("the probe", by_probe), (record.load.tool, by_tool))
        if (differences := dict.fromkeys(text for each in stated if each for text in _differences(record, each)))
    ]
    if not seen:
        return ()
    return [
        Finding(
            severity="invalid",
            metrics=ALL,
            seen="; ".join(seen),
            threshold="limit: the same",
            means="The figures are those of another protocol than the cell is named after.",
            advice="Read the server's configuration: what it offers decides.",
        )
    ]


CHECK = Check("protocol-mismatch", "another protocol was measured than the one asked for", of_trial=of_trial)


def _differences(record: TrialRecord, agreed: Negotiated) -> Iterator[str]:
    """Yield what differs from the wanted protocol, and from the options of its TLS, as clauses."""
    if agreed.protocol is not None and agreed.protocol != record.protocol:
        yield f"{agreed.protocol}, not {record.protocol}"
    tls = record.tls
    if tls is None:
        return
    if agreed.tls_version is not None and agreed.tls_version != tls.version:
        yield f"TLS {agreed.tls_version}, not {tls.version}"
    if agreed.cipher is not None and tls.ciphers is not None and agreed.cipher not in tls.ciphers.split(":"):
        yield f"the cipher suite {agreed.cipher}, not {tls.ciphers.replace(':', ' or ')}"
    if agreed.key is not None and tls.certificate is None and agreed.key != tls.key:
        yield f"a key of the kind {agreed.key}, not {tls.key}"
