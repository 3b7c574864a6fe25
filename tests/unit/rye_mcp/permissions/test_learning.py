"""What is proposed allows all that was seen, but for hidden places, and is the least that does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lilux.primitives.subprocess import Fact, Hosts, Policy
from rye_mcp.permissions import Access, Permissions, read_permissions
from rye_mcp.permissions.learning import RUN_LATER, SYSTEM, TEMPORARY, propose
from rye_mcp.permissions.planning import Facts, plan

PROJECT = "/work/shop"
WHERE = Facts(
    home="/home/ada",
    project=PROJECT,
    run=("/run/copy", "/home/ada/.pyenv/versions/3.12"),
    kept="/home/ada/.local/share/rye/kept/demo",
    hidden=("/home/ada/.ai", "/home/ada/.local/state/rye"),
    git_directories=(f"{PROJECT}/.git",),
    git_configuration=("/home/ada/.gitconfig",),
    ssh_agent="/tmp/ssh-x/agent.1",
)


def proposed(*facts: tuple[str, str], **others: object) -> object:
    found = propose([Fact(*fact) for fact in facts], WHERE, **others)  # type: ignore[arg-type]
    return found.permissions.canonical()


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ([], {}),
        ([("read", "/usr/lib/x"), ("read", "/run/copy/tool.py"), ("write", "/tmp/x")], {}),
        ([("read", f"{PROJECT}/a.txt")], {"project": "read"}),
        ([("read", f"{PROJECT}/a.txt"), ("write", f"{PROJECT}/sub/b")], {"project": "write"}),
        ([("exec", "/usr/bin/git"), ("read", "/home/ada/.gitconfig")], {"project": "read", "uses": ["git"]}),
        ([("write", f"{PROJECT}/.git/index.lock")], {"project": "write", "uses": ["git"]}),
        ([("write", f"{PROJECT}/.ai/tools/x.py")], {"project": "write", "uses": ["items"]}),
        ([("write", "/home/ada/.cache/pip/x")], {"uses": ["cache"]}),
        ([("connect", "/tmp/ssh-x/agent.1")], {"uses": ["ssh-agent"]}),
        ([("read", "/dev/ptmx"), ("write", "/dev/null")], {"uses": ["terminal"]}),
        ([("write", "/dev/tty")], {}),
        ([("write", "/dev/nvidia0")], {"uses": ["gpu"]}),
        ([("read", "/srv/data/a"), ("read", "/srv/data/b")], {"read": ["/srv/data/a", "/srv/data/b"]}),
        ([("read", f"/srv/data/{n}") for n in "abc"], {"read": ["/srv/data"]}),
        ([("read", f"/home/ada/{n}") for n in "abc"], {"read": ["~/a", "~/b", "~/c"]}),
        ([("read", "/srv/d/x"), ("write", "/srv/d")], {"write": ["/srv/d"]}),
        ([("connect", "192.0.2.1:443")], {"net": "any"}),
        ([("connect", "127.0.0.1:53"), ("connect", "192.0.2.9:53")], {}),
    ],
)
def test_each_fact_is_allowed_by_the_least_that_allows_it(
    facts: list[tuple[str, str]], expected: dict[str, object]
) -> None:
    assert proposed(*facts) == expected


def test_hosts_are_named_and_stand_ins_mean_their_names() -> None:
    found = proposed(
        ("connect", "198.18.0.1:8443"),
        ("connect", "198.18.0.7:80"),
        hosts=[("api.github.com", 443)],
        names={"api.example.org": "198.18.0.1"},
    )
    assert found == {"net": ["api.example.org:8443", "api.github.com"]}


def test_what_cannot_be_seen_is_taken_over() -> None:
    declared = Permissions(
        project=Access.WRITE, env=frozenset({"TOKEN"}), secrets=frozenset({"KEY"}), calls=frozenset({"a/*"})
    )
    assert proposed(declared=declared) == {"env": ["TOKEN"], "secrets": ["KEY"], "calls": ["a/*"]}


HIDDEN = [
    "/home/ada/.aws/credentials",
    "/home/ada/.ssh/id_ed25519",
    "/home/ada/.ai/keys/signing.pem",
    f"{PROJECT}/.env",
    "/home/ada/.config/gh/hosts.yml",
]


@pytest.mark.parametrize("path", HIDDEN)
@pytest.mark.parametrize("kind", ["read", "write"])
def test_a_hidden_place_is_named_and_not_proposed(kind: str, path: str) -> None:
    found = propose([Fact(kind, path)], WHERE)  # type: ignore[arg-type]
    assert found.permissions == Permissions()
    assert len(found.notes) == 1
    assert path.replace("/home/ada", "~") in found.notes[0]


RUN_ELSEWHERE = [
    "/home/ada/.bashrc",
    "/home/ada/.profile",
    "/home/ada/.config/autostart/x.desktop",
    "/home/ada/.config/systemd/user/x.service",
    "/home/ada/.local/bin/python3",
    "/home/ada/.gitconfig",
    "/home/ada/.claude/settings.json",
    "/home/ada/.claude.json",
    "/home/ada/other/.git/hooks/pre-commit",
    "/home/ada/other/.vscode/tasks.json",
    "/srv/other/node_modules/x/index.js",
    *(f"/home/ada{each[1:]}" for each in RUN_LATER),
]


@pytest.mark.parametrize("path", RUN_ELSEWHERE)
def test_what_other_programs_run_is_named_and_not_proposed_for_writing(path: str) -> None:
    found = propose([Fact("write", path)], WHERE)
    assert found.permissions == Permissions()
    [note] = found.notes
    assert f" {path.replace('/home/ada', '~')}: not proposed, because other programs run" in note


def test_what_other_programs_run_may_be_read() -> None:
    assert proposed(("read", "/home/ada/.bashrc")) == {"read": ["~/.bashrc"]}


def test_a_directory_is_not_proposed_where_it_holds_what_other_programs_run() -> None:
    """`~/go` holds `~/go/bin`, and nothing that is hidden."""
    paths = [f"/home/ada/go/{name}" for name in ("a", "b", "c")]
    assert proposed(*(("write", path) for path in paths)) == {"write": ["~/go/a", "~/go/b", "~/go/c"]}
    assert proposed(*(("read", path) for path in paths)) == {"read": ["~/go"]}
    assert proposed(("write", "/home/ada/go")) == {}


PATHS = st.one_of(
    st.sampled_from(
        [
            *HIDDEN,
            *RUN_ELSEWHERE[:11],
            "/home/ada/.config",
            "/home/ada/.config/a",
            "/home/ada/.config/b",
            "/home/ada/.config/c",
            f"{PROJECT}",
            f"{PROJECT}/.git/config",
            f"{PROJECT}/.git/refs/x",
            f"{PROJECT}/.vscode/tasks.json",
            f"{PROJECT}/.ai/tools/a.py",
            "/home/ada",
            "/home",
            "/",
            "/home/ada/.gitconfig",
            "/home/ada/.cache/x/y",
            "/home/ada/.local",
            "/home/ada/odd [name]",
            "/srv",
            "/tmp/a",
            "/dev/pts/1",
            "/usr/lib/x",
        ]
    ),
    st.builds(
        "{}/{}{}".format,
        st.sampled_from([PROJECT, "/srv/data", "/home/ada/data", "/opt/x", "/var/lib", "/tmp/t"]),
        st.sampled_from("abcd"),
        st.sampled_from(["", "/x", "/y/z"]),
    ),
)
FACTS = st.lists(st.builds(Fact, st.sampled_from(["read", "write"]), PATHS), max_size=12)


def below(path: str, places: object) -> bool:
    return any(path == each or path.startswith(f"{each}/") for each in places)  # type: ignore[attr-defined]


def allows(policy: Policy, fact: Fact) -> bool:
    """What the kernel would say: another reading of the policy than the proposal's own."""
    binds = [bind.target for bind in policy.binds]
    own = [*TEMPORARY, "/dev", *binds]
    if below(fact.what, policy.mask):
        return False
    if fact.kind == "write":
        return below(fact.what, own) or (
            below(fact.what, policy.write) and not below(fact.what, policy.protect)
        )
    return below(fact.what, [*SYSTEM, *policy.read, *policy.write, *own])


@given(FACTS)
def test_a_proposal_is_valid_and_allows_every_fact_that_it_does_not_name(facts: list[Fact]) -> None:
    found = propose(facts, WHERE)
    written = found.permissions.canonical()
    assert read_permissions(written) == (found.permissions, [])
    planned = plan(found.permissions, WHERE, item_id="demo/x")
    for fact in facts:
        shown = fact.what.replace("/home/ada", "~", 1)
        named = any(shown in note.split(":")[0].split() or shown in note for note in found.notes)
        assert named or allows(planned.policy, fact), (fact, written, found.notes)
    for path in HIDDEN:
        assert not allows(planned.policy, Fact("read", path)), path
    for path in RUN_ELSEWHERE[:8]:  # of the home, whatever was written beside them
        assert not allows(planned.policy, Fact("write", path)), path


@given(FACTS, FACTS)
def test_more_facts_never_give_less_and_no_facts_nothing(some: list[Fact], more: list[Fact]) -> None:
    assert propose([], WHERE).permissions == Permissions()
    assert propose(some, WHERE).permissions.project <= propose([*some, *more], WHERE).permissions.project
    assert propose(some, WHERE).permissions.uses <= propose([*some, *more], WHERE).permissions.uses


def test_the_net_of_a_policy_has_the_hosts() -> None:
    found = propose([], WHERE, hosts=[("api.github.com", 443), ("a.example.org", 80)])
    planned = plan(found.permissions, WHERE, item_id="demo/x")
    assert planned.policy.net == Hosts(["a.example.org:80", "api.github.com"])
