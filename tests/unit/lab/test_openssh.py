from __future__ import annotations

from pathlib import Path

import pytest

from benchkit.errors import InputError
from benchkit.lab.openssh import server_config
from benchkit.lab.processes import find_programs


def test_penalties_are_turned_off_only_in_versions_that_have_them() -> None:
    def config(version: tuple[int, int]) -> str:
        path = Path("/x y")
        return server_config(
            version=version,
            listen=("192.0.2.1", 22),
            host_key=path / "key",
            authorized_keys=path / "100%",
            root=True,
            environment={"A": "b", "PATH": "/a b:/c"},
        )

    assert "PerSourcePenalties" not in config((9, 7))
    assert "PerSourcePenalties no\n" in config((9, 8))
    assert "PerSourcePenalties no\n" in config((10, 0))
    assert 'HostKey "/x y/key"\n' in config((9, 2))
    assert 'AuthorizedKeysFile "/x y/100%%"\n' in config((9, 2))
    assert "PasswordAuthentication no\n" in config((9, 2))
    assert 'SetEnv "A=b" "PATH=/a b:/c"\n' in config((9, 2))


def test_all_missing_programs_are_named() -> None:
    with pytest.raises(InputError, match=r"missing on this machine: no-such-a, no-such-b\n.*benchkit lab prepare"):
        find_programs(["sh", "no-such-a", "no-such-b"])
