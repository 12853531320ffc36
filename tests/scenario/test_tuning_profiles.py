from __future__ import annotations

from pathlib import Path

import pytest

from benchkit.errors import InputError
from benchkit.hosts.known_sysctls import advice, is_made_up
from benchkit.models.cpus import cpu_places
from benchkit.resources import shipped
from benchkit.scenario.read import read_experiment
from benchkit.scenario.tuning_profiles import UsedProfile

SCENARIO = """\
name: small
title: Small
question: Which?
stacks:
  one: {entry: app, services: {app: {backend: nethttp, listen: 8080}}}
load: {tool: wrk, connections: 4, duration_s: 1}
blocks: 2
tuning:
  - {profile: PROFILE, roles: [sut]}
"""


def used_profile(folder: Path, profile: str) -> UsedProfile:
    path = folder / "small.yaml"
    path.write_text(SCENARIO.replace("PROFILE", profile))
    (used,) = read_experiment(str(path)).tuning
    return used


@pytest.mark.parametrize("name", sorted(path.stem for path in (shipped("configs") / "tuning").glob("*.yaml")))
def test_shipped_profiles_name_settings_that_linux_has_or_had(tmp_path: Path, name: str) -> None:
    used = used_profile(tmp_path, name)
    assert used.profile.sysctl
    assert [key for key in used.profile.sysctl if is_made_up(key)] == []


def test_a_profile_of_ones_own_stands_beside_the_scenario(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("description: Mine\nsysctl: {net.core.somaxconn: 7}\nlimits: {nofile: 99}\n")
    used = used_profile(tmp_path, "mine.yaml")
    assert used.profile.sysctl == {"net.core.somaxconn": 7}
    assert used.profile.limits.nofile == 99


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
def test_a_wrong_profile_names_its_own_file_line_and_field(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "mine.yaml").write_text(text)
    with pytest.raises(InputError) as caught:
        used_profile(tmp_path, "mine.yaml")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("profile", "message"),
    [
        (
            "nginx-vs-goo",
            "small.yaml:9: tuning.0.profile: no tuning profile 'nginx-vs-goo'; did you mean 'nginx-vs-go'?",
        ),
        ("none.yaml", "small.yaml:9: tuning.0.profile: no file "),
        ("nginx-vs-go, roles: [sutt]} #", "small.yaml:9: tuning.0.roles: no role 'sutt'; did you mean 'sut'?"),
    ],
)
def test_a_profile_or_role_that_is_not_there(tmp_path: Path, profile: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        used_profile(tmp_path, profile)
    assert message in str(caught.value)


def test_a_slip_of_the_pen_is_told_from_a_setting_that_kernels_lost() -> None:
    assert is_made_up("net.core.somaxcon")
    assert advice("net.core.somaxcon").startswith("did you mean 'net.core.somaxconn'?")
    assert not is_made_up("net.ipv4.tcp_tw_recycle")
    assert not is_made_up("net.netfilter.nf_conntrack_max")


@pytest.mark.parametrize(("text", "places"), [("0", (0,)), ("2-3", (2, 3)), ("0-1,6", (0, 1, 6)), ("3,1", (3, 1))])
def test_places_of_cpus(text: str, places: tuple[int, ...]) -> None:
    assert cpu_places(text) == places


@pytest.mark.parametrize(("text", "why"), [("3-1", "goes backwards"), ("0-2,1", "twice")])
def test_places_that_make_no_sense(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        cpu_places(text)
