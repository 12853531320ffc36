"""Owners of labs: which lab a command uses, and which labs it leaves alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from benchkit.cli.choices import inventory_of
from benchkit.cli.lab import app
from benchkit.errors import InputError
from benchkit.hosts.connections import connect
from benchkit.lab import state
from benchkit.lab.choice import choose_lab, remove_abandoned, require_removable
from benchkit.lab.lab import Lab, down, find_lab, up
from benchkit.lab.spec import LabHost, LabSpec
from benchkit.lab.state import LabOwner, current_owner

ONE_HOST = (LabHost(name="only", roles=("sut",)),)


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout without labs, from which benchkit seems to run."""
    monkeypatch.setattr(state, "current_checkout", lambda: tmp_path)
    monkeypatch.delenv("BENCHKIT_LAB", raising=False)
    return tmp_path


def write_owner(lab: Lab, owner: LabOwner) -> None:
    (lab.folder.path / "owner.json").write_text(owner.model_dump_json())


def give_away(lab: Lab) -> LabOwner:
    """Make another checkout the owner of a lab."""
    other = LabOwner(checkout=Path("/elsewhere"), user="somebody")
    write_owner(lab, other)
    return other


@pytest.mark.usefixtures("checkout")
def test_without_a_name_only_the_lab_of_this_checkout_is_used(
    lab_name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = up(LabSpec(name=lab_name, hosts=ONE_HOST))
    inventory = inventory_of(None)
    assert inventory.lab == lab_name
    assert capsys.readouterr().err == f"lab: {lab_name}, of this checkout\n"

    give_away(lab)
    with pytest.raises(
        InputError, match=f"no lab of this checkout is up.*{lab_name} \\(of /elsewhere and user somebody\\)"
    ):
        choose_lab()
    inventory_of(None, lab_name)  # by its name, any lab may be used
    assert capsys.readouterr().err == f"lab: {lab_name}, of /elsewhere and user somebody\n"

    (lab.folder.path / "owner.json").unlink()  # its record is lost
    with pytest.raises(InputError, match=f"{lab_name} \\(of an unknown owner"):
        choose_lab()
    monkeypatch.setenv("BENCHKIT_LAB", "zzz")
    with pytest.raises(InputError, match=rf"BENCHKIT_LAB: no lab 'zzz' is up: labs that are up: .*{lab_name}"):
        choose_lab()


@pytest.mark.usefixtures("checkout")
def test_of_several_labs_of_a_checkout_one_has_to_be_named(lab_name: str) -> None:
    up(LabSpec(name=lab_name, hosts=ONE_HOST))
    other = f"{lab_name}-b"
    try:
        up(LabSpec(name=other, hosts=ONE_HOST))
        with pytest.raises(InputError, match=f"several labs: {lab_name}, {other}"):
            choose_lab()
        assert CliRunner().invoke(app, ["down"]).exception is not None
        listed = json.loads(CliRunner().invoke(app, ["status", "--json"]).stdout)["labs"]
        assert {lab["name"] for lab in listed} == {lab_name, other}
        assert "--lab NAME selects one" in CliRunner().invoke(app, ["status"]).stdout
        assert choose_lab(other).name == other
        down(other)
        up(LabSpec(name=other, hosts=ONE_HOST), temporary=True)
        assert choose_lab().name == lab_name, "a temporary lab is nobody's default"
        down(lab_name)
        with pytest.raises(InputError) as refused:
            choose_lab()
        assert other not in str(refused.value), "nobody is advised to use a temporary lab"
    finally:
        down(other)


def test_a_lab_of_another_owner_is_removed_by_force_only(lab_name: str) -> None:
    runner = CliRunner()
    lab = up(LabSpec(name=lab_name, hosts=ONE_HOST))
    for described in ("/elsewhere and user somebody", "an unknown owner: its record is missing or damaged"):
        if "unknown" in described:
            (lab.folder.path / "owner.json").unlink()
        else:
            give_away(lab)
        refused = runner.invoke(app, ["down", "--name", lab_name])
        assert isinstance(refused.exception, InputError)
        assert f"it belongs to {described}" in str(refused.exception)
        assert "--force" in str(refused.exception)
        assert find_lab(lab_name) is not None
    assert runner.invoke(app, ["down", "--name", lab_name, "--force"]).exit_code == 0
    assert find_lab(lab_name) is None


def test_a_lab_that_a_run_holds_is_not_removed(lab_name: str) -> None:
    lab = up(LabSpec(name=lab_name, hosts=ONE_HOST))
    require_removable(lab_name)
    (spec,) = lab.inventory().hosts
    with connect(spec) as host:
        require_removable(lab_name)  # a connection alone is no run
        host.lock_for("r-in-use", "somebody@somewhere")
        refused = CliRunner().invoke(app, ["down", "--name", lab_name])
        assert isinstance(refused.exception, InputError)
        assert "only is in use: r-in-use of somebody@somewhere" in str(refused.exception)
    assert CliRunner().invoke(app, ["down", "--name", lab_name]).exit_code == 0


@pytest.mark.usefixtures("loopback")
def test_a_lab_on_loopback_is_removed_while_a_run_holds_another(lab_name: str) -> None:
    """Hosts on loopback share the machine's lock, so each of them sees the holder of the other."""
    held_name = f"{lab_name}-held"
    up(LabSpec(name=lab_name, hosts=ONE_HOST, on_loopback=True))
    held = up(LabSpec(name=held_name, hosts=ONE_HOST, on_loopback=True))
    try:
        (spec,) = held.inventory().hosts
        with connect(spec) as host:
            host.lock_for("r-in-use", "somebody@somewhere")
            with pytest.raises(InputError, match="only is in use: r-in-use of somebody@somewhere"):
                require_removable(held_name)
            require_removable(lab_name)
    finally:
        down(held_name)


def test_a_named_lab_that_does_not_exist_is_bad_input(lab_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    up(LabSpec(name=lab_name, hosts=ONE_HOST))
    listed = rf"there is no lab 'nope'.*labs that are up: .*{lab_name} \(of this checkout\)"
    with pytest.raises(InputError, match=f"--lab: {listed}"):
        CliRunner().invoke(app, ["down", "--lab", "nope"], catch_exceptions=False)
    monkeypatch.setenv("BENCHKIT_LAB", "nope")
    with pytest.raises(InputError, match=f"BENCHKIT_LAB: {listed}"):
        CliRunner().invoke(app, ["down", "--force"], catch_exceptions=False)


@pytest.mark.usefixtures("checkout")
def test_without_a_lab_and_a_name_there_is_nothing_to_remove() -> None:
    done = CliRunner().invoke(app, ["down", "--json"])
    assert (done.exit_code, json.loads(done.stdout)["was_there"]) == (0, False)


def test_labs_of_killed_processes_are_removed_and_no_others(lab_name: str, checkout: Path) -> None:
    lab = up(LabSpec(name=lab_name, hosts=ONE_HOST), temporary=True)
    remove_abandoned()
    assert find_lab(lab_name) is not None, "the process that made it is alive"
    write_owner(lab, LabOwner(checkout=Path("/elsewhere"), user=current_owner().user, temporary_pid=2**22 + 1))
    remove_abandoned()
    assert find_lab(lab_name) is not None, "it belongs to another checkout"
    write_owner(lab, LabOwner(checkout=checkout, user=current_owner().user, temporary_pid=2**22 + 1))
    remove_abandoned()
    assert find_lab(lab_name) is None
