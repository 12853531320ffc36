from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from benchkit.document import read_document
from benchkit.errors import InputError
from benchkit.loadtools.load_shares import pauses, turn_s
from benchkit.loadtools.registry import TOOLS
from benchkit.models.base import SplitCpus
from benchkit.models.design import HELD_WINDOW, Difference, ResponsePart
from benchkit.models.load import Load
from benchkit.models.request import Request, SecretValue
from benchkit.scenario.model import Scenario
from benchkit.scenario.read import experiment_of_options
from benchkit.scenario.server_arguments import is_on_this_machine, request_path, server_names
from benchkit.scenario.trial_order import CURVE_S
from benchkit.scenario.versus import (
    MIN_BLOCKS,
    OVERHEAD_S,
    SLICE_S,
    WARM_UP_SHARE,
    ServerComparison,
    compare_commands,
    compare_refs,
    default_tool,
    save_scenario,
)

SLICE_OF_64 = Load(tool="h2load", connections=64, duration_s=SLICE_S)
COMMANDS = {"node": "node server.js {port}", "caddy": "caddy file-server --listen :{port}"}
COMPARISON = ServerComparison(requests=(Request(),), tool="h2load", budget_s=60, precision=0.03)


def test_commands_become_stacks_of_one_service_each() -> None:
    fields = compare_commands(COMMANDS, COMPARISON)
    assert fields["factors"] == {"stack": ["node", "caddy"]}
    assert fields["stacks"] == {
        name: {"entry": "app", "services": {"app": {"backend": "command", "listen": 8080, "run": command.split()}}}
        for name, command in COMMANDS.items()
    }


def test_refs_become_a_factor_of_one_stack() -> None:
    fields = compare_refs("go build -o {out}/app .", "{out}/app -p {port}", ["main", "HEAD"], "/src", COMPARISON)
    assert fields["factors"] == {"ref": ["main", "HEAD"]}
    assert fields["stacks"] == {
        "server": {
            "entry": "app",
            "services": {
                "app": {
                    "backend": "command",
                    "listen": 8080,
                    "build": {"run": ["go", "build", "-o", "{out}/app", "."]},
                    "source": {"git": "/src", "ref": "$ref"},
                    "run": ["{out}/app", "-p", "{port}"],
                }
            },
        }
    }


def test_a_tool_that_takes_whole_seconds_gets_them() -> None:
    fields = compare_commands(COMMANDS, replace(COMPARISON, tool="wrk", budget_s=40))
    load = fields["load"]
    assert (load["duration_s"], load["warmup_s"], fields["design"]) == (1, 1, "blocks")


def test_connections_and_the_held_rate_follow_from_load_curves_unless_given() -> None:
    load = compare_commands(COMMANDS, COMPARISON)["load"]
    assert (load["at_knee"], load["held_share"]) == (True, 0.5)
    given = replace(COMPARISON, connections=32, held_share=None, held_rate=400)
    load = compare_commands(COMMANDS, given)["load"]
    assert (load["connections"], load["held_rate"]) == (32, 400)
    assert not {"at_knee", "held_share"} & load.keys()


def test_servers_of_a_lab_share_a_host_with_the_load_tool() -> None:
    in_lab = replace(COMPARISON, cpus=SplitCpus(servers="0", load="1"), quota=0.5)
    fields = compare_commands({"one": "./one {port}", "other": "./other {port}"}, in_lab)
    assert fields["roles"] == {"sut": {"cpus": "0", "quota": 0.5}, "load": {"cpus": "1"}}
    stacks = fields["stacks"]
    assert stacks["one"]["services"]["app"]["listen"] == "127.0.0.1:8080"


def test_servers_of_a_lab_start_as_in_the_shell(tmp_path: Path) -> None:
    (tmp_path / "uvicorn").write_text("#!/bin/sh\n")
    (tmp_path / "uvicorn").chmod(0o755)
    in_lab = replace(COMPARISON, search_path=f"/nowhere:{tmp_path}")
    stacks = compare_commands({"venv": "uvicorn 'a b' {port}", "here": "./app"}, in_lab)["stacks"]
    services = [stacks[name]["services"]["app"] for name in ("venv", "here")]
    assert [service["run"] for service in services] == [[str(tmp_path / "uvicorn"), "a b", "{port}"], ["./app"]]
    assert {service["env"]["PATH"] for service in services} == {in_lab.search_path}
    with pytest.raises(InputError, match="node is missing on this machine: it is in no folder of this shell's PATH"):
        compare_commands(COMMANDS, replace(in_lab, search_path=str(tmp_path)))


def test_request_is_that_of_the_load() -> None:
    request = Request(path="/items", method="POST", body="{}", headers={"Accept": "text/html"})
    load = compare_commands(COMMANDS, ServerComparison((request,), "wrk", 60, 0.03, connections=32))["load"]
    assert {name: load[name] for name in ("tool", "connections", "path", "method", "body", "headers")} == {
        "tool": "wrk",
        "connections": 32,
        "path": "/items",
        "method": "POST",
        "body": "{}",
        "headers": {"Accept": "text/html"},
    }


def test_a_body_may_be_a_file_and_differences_are_declared() -> None:
    request = Request(path="/items", method="PUT", body_file="/data/items.bin")
    fields = compare_commands(COMMANDS, ServerComparison((request,), "wrk", 60, 0.03, differs=(ResponsePart.BODY,)))
    load = fields["load"]
    assert load["requests"] == [{"path": "/items", "method": "PUT", "body_file": "/data/items.bin"}]
    declared = [Difference.model_validate(each) for each in Scenario.model_validate(fields).differs]
    assert [(each.what, each.varies) for each in declared] == [
        (("header_bytes",), False),
        (("body_bytes", "body"), True),
    ]


def test_requests_of_several_methods_get_a_tool_that_sends_them() -> None:
    mixed = (Request(path="/a"), Request(path="/b", method="POST", body="{}"))
    assert default_tool(mixed[:1]) == "h2load"
    tool = TOOLS[default_tool(mixed)]
    load = Load.model_validate(
        {
            "connections": 1,
            "duration_s": 1,
            "tool": tool.name,
            **replace(COMPARISON, requests=mixed, tool=tool.name, connections=1, held_share=None).load,
        }
    )
    assert not list(tool.requests.unsupported_fields(load, tool.name))


def test_several_requests_share_their_headers() -> None:
    headers = {"Accept": "text/html"}
    requests = (Request(path="/a", headers=headers), Request(path="/b", method="POST", body="{}", headers=headers))
    load = compare_commands(COMMANDS, replace(COMPARISON, requests=requests))["load"]
    assert load["requests"] == [{"method": "GET", "path": "/a"}, {"method": "POST", "path": "/b", "body": "{}"}]
    assert load["headers"] == headers
    assert "path" not in load


def test_blocks_design_warm_up_and_start_time_are_those_asked_for() -> None:
    asked = replace(COMPARISON, budget_s=120, blocks=5, design="blocks", warm_up_s=3.0, ready_within_s=20.0)
    fields = compare_commands({"java": "java Server {port}", "there": "http://192.0.2.1"}, asked)
    assert (fields["blocks"], fields["design"]) == (5, "blocks")
    assert "until" not in fields, "all blocks run, however precise"
    load, stacks = fields["load"], fields["stacks"]
    assert load["warmup_s"] == 3.0
    trials_s = (1 + HELD_WINDOW) * load["duration_s"] + 2 * (load["warmup_s"] + OVERHEAD_S)
    assert 2 * (CURVE_S + 5 * trials_s) <= asked.budget_s
    assert stacks["java"]["services"]["app"]["ready"] == {"within_s": 20.0}
    assert "ready" not in stacks["there"]["services"]["app"]


def test_variables_before_a_command_are_its_environment() -> None:
    stacks = compare_commands({"app": "A=1 B='x y' ./app {port}"}, COMPARISON)["stacks"]
    service = stacks["app"]["services"]["app"]
    assert (service["run"], service["env"]) == (["./app", "{port}"], {"A": "1", "B": "x y"})
    assert server_names(["A=1 ./app"]) == ["app"]


@pytest.mark.parametrize(
    "command", ["cd x && ./app {port}", "./app 'a;b' >log", "./app --port $(cat port)", "A=1 ./app | tee log"]
)
def test_a_command_for_a_shell_is_answered_with_the_line_to_use(command: str) -> None:
    with pytest.raises(InputError, match="which only a shell understands") as refused:
        compare_commands({"app": command}, COMPARISON)
    hint = refused.value.hint
    assert hint is not None
    (given,) = shlex.split(hint.removeprefix("let a shell run it: ").partition("; or quote")[0])
    assert shlex.split(given) == ["sh", "-c", command]


def test_mistakes_name_the_field_and_the_command_line() -> None:
    fields = compare_commands({"one": "./app {prt}", "other": "./other"}, COMPARISON)
    with pytest.raises(InputError, match=r"the command line: stacks.one.services.app.run: no placeholder {prt}"):
        experiment_of_options(fields)


@pytest.mark.parametrize(("servers", "budget_s"), [(2, 60), (3, 60), (5, 120), (2, 40)])
def test_fewest_blocks_fit_the_budget(servers: int, budget_s: float) -> None:
    window = replace(COMPARISON, budget_s=budget_s).window_s(servers)
    pauses_s = window / SLICE_S * turn_s(pauses(SLICE_OF_64), SLICE_S) - window
    trials_s = (1 + HELD_WINDOW) * (window / (1 - WARM_UP_SHARE) + pauses_s) + 2 * OVERHEAD_S
    assert servers * (CURVE_S + MIN_BLOCKS * trials_s) <= budget_s + servers * MIN_BLOCKS * 0.1


def test_a_short_budget_has_fewer_blocks_and_names_one_that_is_enough() -> None:
    short = replace(COMPARISON, budget_s=12)
    fields = compare_commands(COMMANDS, short)
    assert fields["until"]["budget_s"] >= 12, "three blocks run all the same"
    shortage = short.shortage(len(COMMANDS))
    assert shortage is not None
    assert shortage.endswith(" s, and not 12 s.")
    (needed_s,) = (float(word) for word in shortage.split(" take ")[1].split()[:1])
    assert replace(COMPARISON, budget_s=needed_s).shortage(len(COMMANDS)) is None


def test_time_before_another_start_is_taken_off_the_budget() -> None:
    again = compare_commands(COMMANDS, replace(COMPARISON, spent_s=12))
    assert again["until"] == {"precision": 0.03, "budget_s": 48}
    assert again["load"]["duration_s"] < compare_commands(COMMANDS, COMPARISON)["load"]["duration_s"]


def test_names_are_those_of_the_programs() -> None:
    assert server_names(["node server.js {port}", "/opt/Caddy/caddy run", "./My_Server"]) == [
        "node",
        "caddy",
        "my_server",
    ]


@pytest.mark.parametrize(
    ("names", "message"),
    [(["a"], "1 names for 2"), (["A", "b"], "'A' is not a valid name"), (["a", "a"], "two names are equal")],
)
def test_names_that_do_not_fit_are_refused(names: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        server_names(["x", "y"], names)


@pytest.mark.parametrize("command", ["", "app 'unclosed"])
def test_command_that_is_none_is_refused(command: str) -> None:
    with pytest.raises(InputError):
        server_names([command, "b"])


def test_saved_scenario_is_read_back_as_it_was(tmp_path: Path) -> None:
    fields = compare_commands(COMMANDS, COMPARISON)
    save_scenario(fields, tmp_path / "mine.yaml")
    assert dict(read_document(tmp_path / "mine.yaml").data) == fields


def test_saved_scenario_names_the_sources_of_secret_headers(tmp_path: Path) -> None:
    headers: dict[str, str | SecretValue] = {
        "Authorization": SecretValue(env="TOKEN"),
        "Accept": "text/html",
    }
    fields = compare_commands(COMMANDS, replace(COMPARISON, requests=(Request(headers=headers),)))
    save_scenario(fields, tmp_path / "mine.yaml")
    assert read_document(tmp_path / "mine.yaml").data["load"]["headers"] == {
        "Authorization": {"env": "TOKEN"},
        "Accept": "text/html",
    }


URL = "http://127.0.0.1:9000"


def test_a_url_becomes_a_server_that_is_there_already() -> None:
    fields = compare_commands({"node": COMMANDS["node"], "there": f"{URL}/items?n=1"}, COMPARISON)
    stacks = fields["stacks"]
    assert stacks["there"] == {"entry": "app", "services": {"app": {"backend": "external", "url": URL}}}


def test_servers_that_are_there_already_need_no_host() -> None:
    in_lab = replace(COMPARISON, cpus=SplitCpus(servers="0", load="1"))
    assert compare_commands({"there": URL}, in_lab)["roles"] == {"load": {"cpus": "1"}}
    assert compare_commands({"there": URL}, COMPARISON)["roles"] == {"load": {}}


def test_a_url_over_tls_needs_the_file_that_verifies_it() -> None:
    verified = compare_commands({"there": "https://host"}, replace(COMPARISON, certificate="/own.pem"))["stacks"]
    assert isinstance(verified, dict)
    assert verified["there"]["services"]["app"]["tls"] == {"certificate": "/own.pem"}
    with pytest.raises(InputError, match="https://host has no certificate"):
        compare_commands({"there": "https://host"}, COMPARISON)


def test_one_server_alone_runs_in_blocks() -> None:
    fields = compare_commands({"node": COMMANDS["node"]}, COMPARISON)
    assert (fields["design"], fields["factors"]) == ("blocks", {"stack": ["node"]})


@pytest.mark.parametrize(
    ("servers", "path", "expected"),
    [
        (["node s.js", URL], None, "/"),
        (["node s.js", f"{URL}/items?n=1"], None, "/items?n=1"),
        ([URL, f"{URL}/"], "/", "/"),
        ([URL], "/items", "/items"),
    ],
)
def test_path_of_the_requests_is_that_of_the_urls(servers: list[str], path: str | None, expected: str) -> None:
    assert request_path(servers, path) == expected


def test_urls_of_several_paths_are_refused() -> None:
    with pytest.raises(InputError, match="several paths: /a, /b"):
        request_path([f"{URL}/a", f"{URL}/b"], None)
    with pytest.raises(InputError, match="several paths: /, /a"):
        request_path([f"{URL}/"], "/a")


def test_servers_of_this_machine_are_known_by_their_urls() -> None:
    here = [URL, "http://localhost", "https://[::1]:8443/x"]
    elsewhere = ["http://192.0.2.1", "http://localhost.example", "localhost"]
    assert [is_on_this_machine(server) for server in (*here, *elsewhere)] == [True] * 3 + [False] * 3
    names = ["localhost-9000", "server-192-0-2-1-81", "node"]
    assert server_names([URL, "http://192.0.2.1:81/x", "node s.js"]) == names


@pytest.mark.parametrize("url", ["http://host:port", "http://user:secret@host", "http://[::1"])
def test_url_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(InputError):
        compare_commands({"there": url}, COMPARISON)
