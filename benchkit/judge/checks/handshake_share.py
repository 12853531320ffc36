"""Check handshake-share: TLS sessions were resumed though full handshakes were asked for."""

from __future__ import annotations

from benchkit import units
from benchkit.judge.check import ALL, Check, CheckResult, Finding, SkippedCheck
from benchkit.judge.evidence import Evidence
from benchkit.judge.handshakes import handshakes
from benchkit.models.thresholds import Thresholds


def of_trial(evidence: Evidence, thresholds: Thresholds) -> CheckResult:
    """Compare the share of resumed handshakes, by the entry's own counters, with none.

    It matters where each request has a connection of its own; kept connections have a few handshakes at their start.
    """
    record = evidence.record
    if record.tls is None or record.tls.resumption or record.load.keepalive:
        return ()
    found = handshakes(evidence)
    if found is None or found.resumed_share is None:
        return SkippedCheck(why=f"{evidence.entry} counts no handshakes")
    if found.resumed_share <= thresholds.resumed_handshakes:
        return ()
    return [
        Finding(
            severity="invalid",
            metrics=ALL,
            seen=f"{units.share(found.resumed_share)} of {found.number:,.0f} TLS handshakes resumed a session",
            threshold=f"limit: {units.share(thresholds.resumed_handshakes)}",
            means="A resumed handshake costs a part of a full one, so these figures are not those of full handshakes.",
            advice="Turn session tickets and the cache of sessions off in the server's configuration.",
        )
    ]


CHECK = Check(
    "handshake-share",
    "TLS sessions were resumed though full handshakes were asked for",
    of_trial=of_trial,
    reads="servers",
)
