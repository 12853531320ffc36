"""Options of `benchkit run` about the hosts of a lab."""

from __future__ import annotations

import pytest

from tests.support.cli.fixtures import Cli


@pytest.mark.parametrize(
    ("option", "seconds"),
    [
        ("--lease", "inf"),
        ("--lease", "0"),
        ("--lease", "1e9"),
        ("--reconnect", "nan"),
        ("--reconnect", "-1"),
        ("--reconnect", "x"),
    ],
)
def test_a_timeout_without_sense_is_refused_before_anything_starts(cli: Cli, option: str, seconds: str) -> None:
    refused = cli("run", "quickstart", option, seconds)
    assert refused.code == 2
    assert option in refused.err
    assert "no lab" not in refused.err
