from __future__ import annotations

from pathlib import Path

import pytest

from benchkit.errors import InputError
from benchkit.hosts.known_sysctls import is_unknown
from benchkit.resources import shipped
from benchkit.scenario.tuning_profiles import UsedProfile
from tests.builders import read_scenario


def used_profile(folder: Path, profile: str, **fields: object) -> UsedProfile:
    (used,) = read_scenario(folder, tuning=[{"profile": profile, **fields}]).tuning
    return used


@pytest.mark.parametrize("name", sorted(path.stem for path in (shipped("configs") / "tuning").glob("*.yaml")))
def test_shipped_profiles_name_settings_of_some_linux_version(tmp_path: Path, name: str) -> None:
    sysctl = used_profile(tmp_path, name).profile.sysctl
    assert sysctl
    assert [key for key in sysctl if is_unknown(key)] == []


def test_a_profile_may_be_a_file_beside_the_scenario(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("description: Mine\nsysctl: {net.core.somaxconn: 7}\nlimits: {nofile: 99}\n")
    profile = used_profile(tmp_path, "mine.yaml").profile
    assert profile.sysctl == {"net.core.somaxconn": 7}
    assert profile.limits.nofile == 99


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("description: x\nsysctl:\n  net.core: {somaxconn: 7}\n", "mine.yaml:3: sysctl.net.core"),
        ("description: x\nsysctls: {}\n", "mine.yaml:2: sysctls: no such field; did you mean 'sysctl'?"),
        ("description: x\nsysctl: {net.core.somaxconn: 1.5}\n", "mine.yaml:2: sysctl.net.core.somaxconn"),
        ("description: x\nsysctl: {net.core.somaxconn: '1; rm'}\n", "mine.yaml:2: sysctl.net.core.somaxconn"),
        ("description: x\nlimits: {nofile: 0}\n", "mine.yaml:2: limits.nofile: found 0"),
        (
            "description: x\nlimits: {nofiles: 1}\n",
            "mine.yaml:2: limits.nofiles: no such field; did you mean 'nofile'?",
        ),
    ],
)
def test_faults_of_a_profile_name_its_own_file(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "mine.yaml").write_text(text)
    with pytest.raises(InputError) as caught:
        used_profile(tmp_path, "mine.yaml")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("profile", "roles", "message"),
    [
        (
            "nginx-vs-goo",
            ["sut"],
            "small.yaml:7: tuning.0.profile: no tuning profile 'nginx-vs-goo'; did you mean 'nginx-vs-go'?",
        ),
        ("none.yaml", ["sut"], "small.yaml:7: tuning.0.profile: no file "),
        ("nginx-vs-go", ["sutt"], "small.yaml:7: tuning.0.roles: no role 'sutt'; did you mean 'sut'?"),
    ],
)
def test_unknown_profiles_and_roles_are_reported(tmp_path: Path, profile: str, roles: list[str], message: str) -> None:
    with pytest.raises(InputError) as caught:
        used_profile(tmp_path, profile, roles=roles)
    assert message in str(caught.value)
