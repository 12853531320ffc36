"""The example of benchkit/services/README.md, as it stands there, with the servers that need no download."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from benchkit.lab.lab import Lab
from tests.support.cli.fixtures import CommandResult
from tests.support.cli.own_servers import block

Cli = Callable[..., CommandResult]


def test_hand_written_servers_are_compared_by_the_scenario(cli: Cli, lab: Lab, folder: Path) -> None:
    changes = ("factors.stack=[node, nginx]", "load.duration_s=1", "load.warmup_s=0.5", "blocks=1")
    done = cli(
        "run", folder / "four.yaml", "--lab", lab.name, "--json", *(each for c in changes for each in ("--set", c))
    )
    assert done.code == 0, done.err
    trials = cli("results", "trials", done.document()["run_id"], "--json").document()
    assert {(row["cell_id"], row["probe_status"], row["probe_body_bytes"]) for row in trials} == {
        ("stack=node", 200, 12),
        ("stack=nginx", 200, 12),
    }
    assert len({row["probe_body_sha256"] for row in trials}) == 1
    if os.geteuid() != 0:
        return  # the server stays with its user, who may read its folder
    (folder / "nginx.conf.j2").write_text(block("nginx").replace("user root;\n", ""))
    forbidden = cli(
        "run", folder / "four.yaml", "--lab", lab.name, "--set", "factors.stack=[nginx]", "--set", "blocks=1"
    )
    assert forbidden.code == 1, forbidden.err
    assert "status 403" in forbidden.err
    assert "Permission denied" in forbidden.err, "the server's own words"
    assert "`user root;`" in forbidden.err
