"""An engine says where tools run, and nothing that ssh could take for an option; tools say what they need."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rye_mcp.metadata import Cluster, Engine, Resources, parse_metadata
from tests.metadata_helpers import issues_of, item

KEY = "0" * 64
WHOLE = {"via": "ssh", "host": "ada@gpu1.example.org", "nodes": [KEY], "takes": ["sim/*"]}


def engine(**changed: Any) -> Any:
    config = {key: value for key, value in (WHOLE | changed).items() if value is not None}
    return item(f"tool_type: engine\nconfig: {json.dumps(config)}\n", ".yaml")


def test_an_engine_is_read_as_it_stands() -> None:
    found = parse_metadata(engine(offers={"cpu": 8, "memory": "64GiB"}, labels={"accel": "a100"}))
    assert found.is_library, "nothing runs it"
    assert found.engine == Engine(
        "ssh",
        frozenset({KEY}),
        ("sim/*",),
        "ada@gpu1.example.org",
        offers=Resources(8, 64 << 30),
        labels=frozenset({("accel", "a100")}),
    )


RAY = {"address": "10.0.0.5:6379"}


def ray(**changed: Any) -> dict[str, Any]:
    cluster = {name: value for name, value in (RAY | changed).items() if value is not None}
    return {"via": "ray", "host": None, "offers": None, "cluster": cluster}


def test_an_engine_may_be_a_ray_cluster() -> None:
    said = ray(
        here="127.0.0.2", python="/opt/ray/bin/python", token_file="/etc/rye/token", width=2, idle_s=0.5
    )
    assert parse_metadata(engine(**said)).engine.cluster == Cluster(
        "10.0.0.5:6379", "/opt/ray/bin/python", "/etc/rye/token", "127.0.0.2", 2, idle_s=0.5
    )


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"via": "telnet"}, "config.via: expected one of loopback, ssh"),
        ({"via": None}, "expected via"),
        ({"host": None}, "expected a host for ssh"),
        ({"host": "-oProxyCommand=id"}, "config.host: expected a host"),
        ({"host": "a b"}, "config.host"),
        ({"host": "gpu1\n"}, "config.host"),
        ({"program": "rye\n"}, "config.program"),
        ({"nodes": [f"{KEY}\n"]}, "config.nodes"),
        ({"host": "a;id"}, "config.host"),
        ({"host": "-x@gpu1"}, "config.host"),
        ({"program": "rye;id"}, "config.program"),
        ({"program": "-x"}, "config.program"),
        ({"program": "$(id)"}, "config.program"),
        ({"via": "loopback"}, "expected none for loopback"),
        ({"nodes": ["ab"]}, "config.nodes.0: expected a whole key id"),
        ({"nodes": None}, "expected nodes"),
        ({"takes": ["../x"]}, "config.takes.0"),
        ({"takes": None}, "expected takes"),
        ({"offers": {"disk": 1}}, "config.offers.disk"),
        ({"via": "ray"}, "expected a cluster for ray"),
        ({"cluster": {"address": "10.0.0.5:6379"}}, "config.cluster: expected none for ssh"),
        (ray() | {"offers": {"cpu": 1}}, "config.offers: expected none for ray"),
        (ray(address="10.0.0.5"), "config.cluster.address: expected HOST:PORT"),
        (ray(address="-x:1"), "config.cluster.address"),
        (ray(address=None), "config.cluster: expected address"),
        (ray(python="bin/python"), "config.cluster.python: expected an absolute path"),
        (ray(token_file="token"), "config.cluster.token_file"),
        (ray(width=0), "config.cluster.width"),
        (ray(token="x"), "config.cluster.token: expected only address"),
        ({"token": "x"}, "config.token: expected only via"),
    ],
)
def test_what_an_engine_may_not_say_is_refused(changed: dict[str, Any], words: str) -> None:
    assert any(words in each["message"] for each in issues_of(engine(**changed)))


def test_an_engine_that_something_would_run_is_refused() -> None:
    text = f"tool_type: engine\nexecutor_id: a/b\nconfig: {json.dumps(WHOLE)}\n"
    assert "expected none for an engine" in issues_of(item(text, ".yaml"))[0]["message"]


@pytest.mark.parametrize("said", ["resources: {cpu: 1}", "placement: {required: true}", "idempotent: true"])
def test_a_tool_that_runs_here_alone_says_nothing_of_other_machines(said: str) -> None:
    [issue] = issues_of(item(f"executor_id: a/b\n{said}\n", ".yaml"))
    assert "expected none beside" in issue["message"]
    parse_metadata(item(f"executor_id: a/b\nworkspace: none\n{said}\n", ".yaml"))


@pytest.mark.parametrize("workspace", ["none", "tree", "shared:data", "shared:a-b_1"])
def test_a_workspace_is_nothing_files_or_a_shared_directory(workspace: str) -> None:
    found = parse_metadata(item(f"executor_id: a/b\nworkspace: {workspace!r}\n", ".yaml"))
    assert found.workspace == workspace


@pytest.mark.parametrize("workspace", ["project", "shared:", "shared:../x", "shared:/srv", "shared:A", "tre"])
def test_any_other_workspace_is_refused(workspace: str) -> None:
    [issue] = issues_of(item(f"executor_id: a/b\nworkspace: {workspace!r}\n", ".yaml"))
    assert "expected none, tree or shared:NAME" in issue["message"]


@pytest.mark.parametrize(
    ("wanted", "offered", "beyond"),
    [
        (Resources(), Resources(), None),
        (Resources(cpu=1), Resources(), "cpu: 1"),
        (Resources(cpu=1.5), Resources(cpu=1), "cpu: 1.5"),
        (Resources(cpu=1, gpu=2), Resources(cpu=1, gpu=1), "gpu: 2"),
        (Resources(memory=1 << 30), Resources(memory=1 << 30), None),
    ],
)
def test_what_is_not_offered_is_named(wanted: Resources, offered: Resources, beyond: str | None) -> None:
    assert wanted.beyond(offered) == beyond
