from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pandas as pd

from benchkit.report.sections.section import ReportInput
from benchkit.report.sections.trials import build_trials
from benchkit.report.stored_run import StoredRun

MakeRun = Callable[..., StoredRun]


def columns(run: StoredRun) -> dict[str, set[str]]:
    """Return the texts of each column of the section."""
    content = build_trials(ReportInput(run, ()))
    assert content is not None
    cells = zip(*content.table.rows, strict=True)
    return {
        column.title: {entry.text for entry in entries}
        for column, entries in zip(content.table.columns, cells, strict=True)
    }


def test_protocols_and_handshakes_have_columns_where_any_trial_has_tls(make_run: MakeRun) -> None:
    run = make_run({"protocol": ["http1", "h2"]}, blocks=2)
    plain = replace(run, trials=run.trials.assign(protocol="http1"))
    assert not {"Protocol", "TLS", "Cipher", "Resumed"} & columns(plain).keys()
    encrypted = run.trials["factor_protocol"] == "h2"
    figures = {"handshakes_per_s": 1200.0, "resumed_share": 0.25, "server_cpu_s_per_handshake": 4e-4}
    trials = run.trials.assign(
        protocol=run.trials["factor_protocol"],
        tls_version=pd.Series("1.3", run.trials.index).where(encrypted),
        cipher=pd.Series("TLS_AES_128_GCM_SHA256", run.trials.index).where(encrypted),
        **{name: pd.Series(value, run.trials.index).where(encrypted) for name, value in figures.items()},
    )
    shown = columns(replace(run, trials=trials))
    assert shown["Protocol"] == {"http1", "h2"}
    assert "1.3" in shown["TLS"]
    assert "TLS_AES_128_GCM_SHA256" in shown["Cipher"]
    assert "1,200" in shown["TLS handshakes"]
    assert any(text.startswith("25") for text in shown["Resumed"])
    assert "400 µs" in shown["Server CPU per handshake"]


def test_memory_and_context_switches_have_columns_where_they_are_known(make_run: MakeRun) -> None:
    run = make_run(blocks=2)
    assert not {"Server memory", "Context switches per request"} & columns(run).keys()
    figures = {"server_memory_bytes": 3 * 2.0**20, "server_switches_per_request": 1.25}
    shown = columns(replace(run, trials=run.trials.assign(**figures)))
    assert shown["Server memory"] == {"3.00 MiB"}
    assert shown["Context switches per request"] == {"1.25"}
