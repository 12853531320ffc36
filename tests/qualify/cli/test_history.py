"""`benchkit history`, `audit`, the exports of histories and the site, from the command line."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from benchkit.models.run import CodeState
from tests.support.cli.fixtures import CommandResult
from tests.support.comparison.fixtures import STARTED, manifest_of, store_run, trials_of

Cli = Callable[..., CommandResult]
CELLS = [{"stack": "old"}, {"stack": "new"}]
RATIOS = [1.0] * 8 + [0.8] * 6


@pytest.fixture
def stored(environment: dict[str, str]) -> Path:
    """A store of fourteen runs, of which the ninth is slower, each with tags and the state of its code."""
    generator = np.random.default_rng(2)
    store = Path(environment["BENCHKIT_STORE"])
    for i, ratio in enumerate(RATIOS):
        noise = 1000 * np.exp(0.01 * generator.standard_normal((2, 8)))
        manifest = manifest_of(
            CELLS,
            run_id=f"r{i:02}",
            started_at=STARTED + timedelta(days=i),
            tags={"version": f"1.{i}"},
            code=CodeState(commit=f"{i:x}" * 40),
        )
        rates = {"stack=old": noise[0], "stack=new": ratio * noise[1]}
        store_run(store, manifest, trials_of(rates, run_id=f"r{i:02}", tool="wrk"))
    return store


def test_a_history_is_exported_and_written_as_a_site(cli: Cli, stored: Path, tmp_path: Path) -> None:
    otava = cli("results", "export", "latest", "--format", "otava").out.splitlines()
    assert len(otava) == 1 + len(RATIOS)
    assert otava[0].startswith("time,run,commit,rps_stack_new_relative_to_stack_old")
    assert "rps-ratio" in cli("results", "export", "latest", "--format", "bmf").document()["small/stack=new"]
    assert cli("results", "export", "latest", "--format", "openmetrics").out.endswith("# EOF\n")
    assert {each["run_id"] for each in cli("results", "export", "r03", "--format", "conbench").document()} == {"r03"}
    site = cli("report", "-o", tmp_path / "site", "--json").document()
    assert (site["pages"], site["written"]) == (2, 2)
    assert Path(site["site"]).is_file()
    assert not (stored / "site").exists()
