"""`rye node` and `rye engine`, as the people of two machines use them: here one person is both."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.people import Person

TOOL = """\
# /// rye
# executor_id: bash_runtime
# workspace: none
# permissions: {}
# ///
echo '{"ran": true}'
"""


@pytest.fixture
def ada(tmp_path: Path) -> Person:
    return Person("ada", tmp_path / "ada")


@pytest.fixture
def project(tmp_path: Path, ada: Person) -> Path:
    project = tmp_path / "project"
    project.mkdir()
    ada.begin(project)
    tools = project / ".ai/tools/sim"
    tools.mkdir(parents=True)
    (tools / "count.sh").write_text(TOOL)
    ada.rye("sign", "sim/count", cwd=project)
    return project


def document(ada: Person, project: Path) -> str:
    path = project / "node.toml"
    path.write_text(ada.rye("node", "init", "--owner", "gpu1", cwd=project).shown)
    return str(path)


@pytest.mark.thorough
def test_a_node_is_accepted_an_engine_is_added_tried_used_and_removed(ada: Person, project: Path) -> None:
    node = document(ada, project)
    own = ada.rye("node", "status", "--json", cwd=project).json
    assert own["servers"] == []
    ada.rye("node", "accept", node, "--ids", "sim/*", cwd=project)
    [server] = ada.rye("node", "status", "--json", cwd=project).json["servers"]
    assert (server["key_id"], server["ids"], server["revoked"]) == (own["key_id"], ["sim/*"], False)

    ada.rye("engine", "add", "gpu1", "--node", node, "--takes", "sim/*", "--label", "accel=a100", cwd=project)
    [engine] = ada.rye("engine", "list", "--json", cwd=project).json["engines"]
    assert (engine["name"], engine["via"], engine["nodes"]) == ("gpu1", "loopback", [own["key_id"]])
    assert ada.rye("engine", "check", "gpu1", "--json", cwd=project).json["node"] == own["key_id"]
    found = ada.rye("doctor", "--engine", "--json", cwd=project).json["findings"]
    [checked] = [each for each in found if each["check"] == "engine gpu1"]
    assert (checked["state"], own["key_id"] in checked["message"]) == ("ok", True)

    ran = ada.rye("run", "sim/count", "--json", cwd=project).json
    assert (ran["data"], ran["node"]["engine"]) == ({"ran": True}, "gpu1")
    rows = ada.rye("log", "--json", cwd=project).json["runs"]
    assert [row.get("node", "here").split()[0] for row in rows] == ["gpu1", "here"], "both sides have it"

    ada.rye("engine", "remove", "gpu1", cwd=project)
    assert "node" not in ada.rye("run", "sim/count", "--json", cwd=project).json


def test_what_was_forgotten_is_refused_and_what_is_wrong_is_said(ada: Person, project: Path) -> None:
    node = document(ada, project)
    ada.rye("node", "accept", node, "--ids", "sim/*", cwd=project)
    ada.rye("engine", "add", "gpu1", "--node", node, "--takes", "sim/*", cwd=project)
    assert ada.rye(
        "engine", "add", "gpu1", "--node", node, "--takes", "x", "--json", cwd=project, code=1
    ).json["code"] == ("item_exists")
    key_id = ada.rye("node", "status", "--json", cwd=project).json["key_id"]
    ada.rye("node", "forget", key_id, cwd=project)
    assert ada.rye("run", "sim/count", "--json", cwd=project, code=1).json["code"] == "node_refused"
    path = ada.user_space / "tools/engines/gpu1.yaml"
    signed = path.read_text()
    path.write_text(signed.replace("sim/*", "*"))
    listed = ada.rye("engine", "list", "--json", cwd=project, code=1).json
    assert [each["code"] for each in listed["problems"]] == ["content_changed"]
    assert ada.rye("run", "sim/count", "--json", cwd=project, code=1).json["code"] == "content_changed"
    path.write_text(signed)
    refused = ada.rye(
        *("engine", "add", "bad", "--ssh", "-oProxyCommand=id", "--node", node, "--takes", "*", "--json"),
        cwd=project,
        code=1,
    )
    assert refused.json["code"] == "invalid_item"
    assert not (ada.user_space / "tools/engines/bad.yaml").exists(), "nothing is left of it"


def test_a_second_node_is_added_by_its_key(ada: Person, project: Path, tmp_path: Path) -> None:
    other = Person("ben", tmp_path / "ben")
    ada.rye("engine", "add", "gpu1", "--node", document(ada, project), "--takes", "sim/*", cwd=project)
    path = project / "other.toml"
    path.write_text(other.rye("node", "init", cwd=project).shown)
    ada.rye("engine", "add-node", "gpu1", "--node", str(path), cwd=project)
    [engine] = ada.rye("engine", "list", "--json", cwd=project).json["engines"]
    assert len(engine["nodes"]) == 2


def test_a_cluster_without_a_token_is_warned_of(ada: Person, project: Path) -> None:
    node = document(ada, project)
    add = ("engine", "add", "--ray", "head:6379", "--node", node, "--takes", "sim/*")
    open_to_all = ada.rye(*add, "grid", cwd=project)
    assert "whoever reaches a port of head:6379 may start programs on its nodes" in open_to_all.err
    closed = ada.rye(*add, "other", "--token-file", "/etc/ray.token", cwd=project)
    assert "whoever" not in closed.err
