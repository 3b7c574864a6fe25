"""What a tool may do becomes exact paths, and no path is granted that was not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given

from lilux.primitives.subprocess import Bind, Hosts
from rye_mcp.permissions import UNCONFINED, Access, Permissions, below_any, read_permissions
from rye_mcp.permissions.planning import GUARDED, MASKED, PACKAGED, Facts, Plan, plan
from tests.permission_strategies import anything
from tests.trust_world import refused

HOME = "/home/ada"
PROJECT = f"{HOME}/site"
FACTS = Facts(
    home=HOME,
    project=PROJECT,
    run=("/state/run/1/copy", "/opt/python", f"{PROJECT}/.venv"),
    scratch="/state/run/1/scratch",
    kept=f"{HOME}/.cache/rye/tools/demo",
    trash=f"{HOME}/.local/state/rye/trash",
    hidden=(f"{HOME}/.ai/keys", f"{HOME}/clients"),
    git_directories=(f"{PROJECT}/.git",),
    git_configuration=(f"{HOME}/.gitconfig",),
    ssh_agent="/run/user/1000/agent",
    gpu_devices=("/dev/dri/renderD128",),
)
OWN = ["/opt/python", "/state/run/1/copy"]


def planned(value: Any, facts: Facts = FACTS) -> Plan:
    permissions, problems = read_permissions(value)
    assert problems == []
    return plan(permissions, facts, item_id="demo/hello")


def test_a_pure_function_sees_what_runs_it_and_nothing_else() -> None:
    policy = planned({}).policy
    assert policy.read == sorted([*OWN, f"{PROJECT}/.venv"])
    assert policy.write == ["/state/run/1/scratch"]
    assert (policy.net, policy.protect, policy.mask, policy.binds, policy.devices) == ("none", [], [], [], ())
    assert (policy.tier, policy.require, policy.home) == ("cell", "none", HOME)


def test_a_tool_that_is_not_confined_has_no_policy() -> None:
    with pytest.raises(ValueError, match="confine"):
        plan(UNCONFINED, FACTS, item_id="demo/hello")


def test_a_project_that_is_read() -> None:
    policy = planned({"project": "read", "require": "walls"}).policy
    assert policy.read == sorted([*OWN, PROJECT])
    assert PROJECT not in policy.write
    assert policy.protect == []
    assert policy.mask == [f"{PROJECT}/{name}" for name in MASKED]
    assert policy.require == "walls"


def test_in_a_project_that_is_written_what_others_run_stays_as_it_is() -> None:
    policy = planned({"project": "write"}).policy
    assert policy.write == [PROJECT, "/state/run/1/scratch"]
    assert policy.read == OWN
    assert policy.protect == [f"{PROJECT}/{name}" for name in (*GUARDED, *PACKAGED)]
    assert policy.mask == [f"{PROJECT}/{name}" for name in MASKED]


def test_git_is_opened_but_for_what_it_runs() -> None:
    found = planned({"project": "write", "uses": ["git"]})
    assert f"{PROJECT}/.git" not in found.policy.protect
    assert {f"{PROJECT}/.git/{name}" for name in ("config", "commondir", "hooks")} <= set(
        found.policy.protect
    )
    assert f"{HOME}/.gitconfig" in found.policy.read
    assert found.variables == {"GIT_DISCOVERY_ACROSS_FILESYSTEM": "1"}


def test_git_configuration_behind_a_link_is_shown_unless_it_leads_to_what_is_hidden() -> None:
    shown, hidden = f"{HOME}/dotfiles/gitconfig", f"{HOME}/.ssh/config"
    for real, expected in ((shown, [Bind(source=shown, target=f"{HOME}/.gitconfig")]), (hidden, [])):
        facts = replace(FACTS, git_configuration=(), git_links=((f"{HOME}/.gitconfig", real),))
        assert list(planned({"project": "read", "uses": ["git"]}, facts).policy.binds) == expected
    assert not planned({}, replace(FACTS, git_links=((f"{HOME}/.gitconfig", shown),))).policy.binds


@pytest.mark.parametrize(("project", "key"), [("read", "read"), ("write", "write")])
def test_a_worktree_brings_the_directories_of_its_repository(project: str, key: str) -> None:
    facts = replace(FACTS, git_directories=("/srv/repo/.git/worktrees/site", "/srv/repo/.git"))
    found = planned({"project": project, "uses": ["git"]}, facts).policy
    assert "/srv/repo/.git" in getattr(found, key)
    assert ("/srv/repo/.git/hooks" in found.protect) is (project == "write")
    assert "/srv/repo/.git" not in planned({"project": project}, facts).policy.read


def test_packages_are_opened_for_those_who_use_them() -> None:
    found = (f"{PROJECT}/backend/.venv",)
    facts = replace(FACTS, packages=found, guarded=(f"{PROJECT}/.husky/_", f"{PROJECT}/hooks"))
    opened = planned({"project": "write", "uses": ["packages"]}, facts).policy.protect
    assert opened == [*(f"{PROJECT}/{name}" for name in GUARDED), f"{PROJECT}/hooks"]
    assert {*found, *facts.guarded} <= set(planned({"project": "write"}, facts).policy.protect)
    assert not {*found, *facts.guarded} & set(planned({"project": "read"}, facts).policy.protect)


def test_items_are_opened_for_those_who_use_them() -> None:
    assert f"{PROJECT}/.ai" not in planned({"project": "write", "uses": ["items"]}).policy.protect


def test_what_is_kept_is_the_tools_own() -> None:
    binds = planned({"uses": ["cache", "temp"]}).policy.binds
    kept = f"{HOME}/.cache/rye/tools/demo"
    assert binds == [
        Bind(source=f"{kept}/cache", target=f"{HOME}/.cache", write=True),
        Bind(source=f"{kept}/temp", target="/tmp", write=True),
    ]


def test_the_rest_of_what_can_be_used() -> None:
    found = planned({"uses": ["ssh-agent", "gpu", "trash"]})
    assert found.policy.binds == [
        Bind(source="/run/user/1000/agent", target="/run/user/1000/agent", write=True)
    ]
    assert found.policy.devices == ("/dev/dri/renderD128",)
    assert f"{HOME}/.local/state/rye/trash" in found.policy.write
    assert found.variables == {"SSH_AUTH_SOCK": "/run/user/1000/agent"}


@pytest.mark.parametrize(
    ("net", "expected"),
    [
        ("none", "none"),
        ("any", "any"),
        (["b.org:80", "*.a.org"], Hosts(["*.a.org", "b.org:80"])),
    ],
)
def test_the_network(net: Any, expected: object) -> None:
    assert planned({"net": net}).policy.net == expected


def test_extra_paths_are_those_of_this_machine() -> None:
    policy = planned({"read": ["~/.aws/credentials", "/srv/a"], "write": ["~/out"]}).policy
    assert policy.read == sorted([*OWN, f"{PROJECT}/.venv", f"{HOME}/.aws/credentials", "/srv/a"])
    assert policy.write == [f"{HOME}/out", "/state/run/1/scratch"]
    assert f"{HOME}/out/.git" in policy.protect


@pytest.mark.parametrize("path", ["~/clients", "~/clients/x", "~/.ai/keys/person"])
def test_a_hidden_place_is_refused(path: str) -> None:
    permissions, _ = read_permissions({"read": [path]})
    error = refused("denied_by_policy", lambda: plan(permissions, FACTS, item_id="demo/hello"))
    assert HOME in error.message


def test_the_home_by_another_way_is_refused() -> None:
    permissions, _ = read_permissions({"write": ["/data"]})
    facts = replace(FACTS, home="/data/people/ada")
    refused("denied_by_policy", lambda: plan(permissions, facts, item_id="demo/hello"))


def test_what_is_hidden_inside_of_what_is_seen_is_masked() -> None:
    in_home = replace(FACTS, project=HOME)
    policy = planned({"project": "read"}, in_home).policy
    assert {f"{HOME}/.ai/keys", f"{HOME}/clients", f"{HOME}/.ssh", f"{HOME}/.aws"} <= set(policy.mask)
    assert policy.home is None, "a home that is seen cannot be a private one"


def test_without_a_project_nothing_of_one_is_opened_or_protected() -> None:
    policy = planned({"project": "write"}, replace(FACTS, project=None)).policy
    assert policy.write == ["/state/run/1/scratch"]
    assert (policy.protect, policy.mask) == ([], [])


@given(anything.filter(lambda permissions: not permissions.unconfined))
def test_no_path_is_granted_that_was_not(permissions: Permissions) -> None:
    policy = plan(permissions, FACTS, item_id="demo/hello").policy
    extra = {path.replace("~", HOME) for path in permissions.write}
    writable = {*extra, "/state/run/1/scratch"}
    writable |= {PROJECT} if permissions.project is Access.WRITE else set()
    writable |= {FACTS.trash} if "trash" in permissions.uses and FACTS.trash else set()
    assert set(policy.write) <= writable
    readable = {*FACTS.run, *(path.replace("~", HOME) for path in permissions.readable)}
    readable |= {PROJECT} if permissions.project else set()
    readable |= {*FACTS.git_configuration, *FACTS.git_directories} if "git" in permissions.uses else set()
    assert set(policy.read) <= readable
    assert {bind.source for bind in policy.binds} <= {
        f"{FACTS.kept}/cache",
        f"{FACTS.kept}/temp",
        FACTS.ssh_agent,
    }
    policy.header()


@pytest.mark.parametrize(
    ("directory", "expected"),
    [
        ("/", ["/", "/a", "/ab", "/a/b", "/a/b/c", "/a/bc"]),
        ("/a", ["/a", "/a/b", "/a/b/c", "/a/bc"]),
        ("/a/", ["/a", "/a/b", "/a/b/c", "/a/bc"]),
        ("/a/b", ["/a/b", "/a/b/c"]),
        ("/b", []),
    ],
)
def test_a_path_is_below_a_directory_by_whole_names(directory: str, expected: list[str]) -> None:
    paths = ["/", "/a", "/ab", "/a/b", "/a/b/c", "/a/bc"]
    assert list(filter(below_any([directory]), paths)) == expected
    assert list(filter(below_any(["/elsewhere", directory]), paths)) == expected
    assert not any(map(below_any([]), paths))
