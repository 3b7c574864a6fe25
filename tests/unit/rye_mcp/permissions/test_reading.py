"""Permissions are read strictly: whatever is unknown, contradictory or ambiguous is an issue that says so."""

from __future__ import annotations

from typing import Any

import pytest

from lilux.schemas import validate_parameters
from rye_mcp.permissions import (
    ANY_HOST,
    NEEDS_SCHEMA,
    PERMISSIONS_SCHEMA,
    UNCONFINED,
    Access,
    Host,
    Permissions,
    Requirement,
    read_needs,
    read_permissions,
    sentence,
)

GOOD: list[tuple[Any, Permissions, str]] = [
    ({}, Permissions(), "may only compute"),
    ("unconfined", UNCONFINED, "may do whatever you can: it is not confined"),
    ({"project": "read"}, Permissions(Access.READ), "may read this project; nothing else"),
    ({"project": "none", "net": "none", "env": []}, Permissions(), "may only compute"),
    (
        {"project": "read", "net": ["API.github.com"]},
        Permissions(Access.READ, frozenset({Host("api.github.com")})),
        "may read this project; may reach api.github.com:443; nothing else",
    ),
    (
        {"net": ["*.example.org:8443", "a.example.org:8443"]},
        Permissions(net=frozenset({Host("*.example.org", 8443)})),
        "may reach *.example.org:8443; nothing else",
    ),
    ({"net": "any"}, Permissions(net=frozenset({ANY_HOST})), "may reach any host; nothing else"),
    (
        {"project": "write", "uses": ["git", "cache"]},
        Permissions(Access.WRITE, uses=frozenset({"git", "cache"})),
        "may read and write this project; may keep a cache of its own; "
        "may use git in this project; nothing else",
    ),
    (
        {"env": ["A_TOKEN"], "secrets": ["KEY", "OTHER"]},
        Permissions(env=frozenset({"A_TOKEN"}), secrets=frozenset({"KEY", "OTHER"})),
        "gets A_TOKEN from the environment; gets KEY and OTHER from your store of secrets; nothing else",
    ),
    (
        {"read": ["~/.aws/credentials", "/srv/data/x"], "write": ["/srv/data"], "require": "cell"},
        Permissions(
            read=frozenset({"~/.aws/credentials"}),
            write=frozenset({"/srv/data"}),
            require=Requirement.CELL,
        ),
        "may read ~/.aws/credentials; may read and write /srv/data; nothing else; runs only in a cell",
    ),
    (
        {"calls": ["rye/git/*", "rye/git/log", "demo/hello"]},
        Permissions(calls=frozenset({"rye/git/*", "demo/hello"})),
        "may call demo/hello and rye/git/*; nothing else",
    ),
]


@pytest.mark.parametrize(("value", "expected", "words"), GOOD, ids=range(len(GOOD)))
def test_permissions_are_read_and_said(value: Any, expected: Permissions, words: str) -> None:
    assert read_permissions(value) == (expected, [])
    assert sentence(expected) == words
    assert validate_parameters({"x": value}, {"properties": {"x": PERMISSIONS_SCHEMA}}).valid


BAD: list[tuple[Any, str]] = [
    ("all", "expected a mapping, or unconfined, found 'all'"),
    (["env"], "expected a mapping, or unconfined, found a list"),
    (True, "expected a mapping, or unconfined, found true"),
    ({"network": True}, "found network"),
    ({"unconfined": True}, "found unconfined"),
    ({"project": "all"}, "project: expected none or read or write, found all"),
    ({"project": True}, "project: expected none or read or write, found true"),
    ({"require": "none"}, "require: expected walls or cell, found none"),
    ({"net": "api.github.com"}, "net: expected a list of hosts, any or none, found 'api.github.com'"),
    ({"net": True}, "net: expected a list of hosts, any or none, found true"),
    ({"net": [443]}, "net: expected a list of texts, found a number in it"),
    ({"net": ["any"]}, "net: expected a full host name"),
    ({"net": ["*"]}, "for every host: net: any"),
    ({"net": ["*.*"]}, "for every host: net: any"),
    ({"net": ["*:443"]}, "for every host: net: any"),
    ({"net": [""]}, "for every host: net: any"),
    ({"net": ["*.com"]}, "before the name of one owner"),
    ({"net": ["*.co.uk"]}, "before the name of one owner"),
    ({"net": ["a.*.org"]}, "a full host name"),
    ({"net": ["*a.example.org"]}, "a full host name"),
    ({"net": ["github"]}, "a full host name"),
    ({"net": ["github.com."]}, "a full host name"),
    ({"net": ["a.org:0"]}, "a full host name"),
    ({"net": ["a.org:65536"]}, "a full host name"),
    ({"net": ["a.org:0443"]}, "a full host name"),
    ({"net": ["a.org:x"]}, "a full host name"),
    ({"net": ["a" * 64 + ".org"]}, "a full host name"),
    ({"net": [".".join(["a" * 60] * 5)]}, "a full host name"),
    ({"net": ["-a.org"]}, "a full host name"),
    ({"net": ["a_b.org"]}, "a full host name"),
    ({"net": ["https://api.github.com"]}, "and no URL"),
    ({"net": ["me@a.org"]}, "and no URL"),
    ({"net": ["bücher.de"]}, "in ASCII (xn--…)"),
    ({"net": ["g\u0131thub.com"]}, "in ASCII (xn--…)"),
    ({"net": ["127.0.0.1"]}, "and no address, found '127.0.0.1'"),
    ({"net": ["127.1:80"]}, "and no address"),
    ({"net": ["0x7f.1"]}, "and no address"),
    ({"net": ["a.0x7f000001"]}, "and no address"),
    ({"net": ["2130706433"]}, "and no address"),
    ({"net": ["::1"]}, "and no address"),
    ({"net": ["[::1]:443"]}, "and no address"),
    ({"net": ["fe80::1%eth0"]}, "and no address"),
    ({"net": ["localhost"]}, "a host on the network, or one service of this machine as localhost:PORT"),
    ({"net": ["localhost:"]}, "a host on the network"),
    ({"net": ["localhost:0"]}, "a full host name"),
    ({"net": ["localhost:70000"]}, "a full host name"),
    ({"net": ["a.localhost:80"]}, "a host on the network"),
    ({"net": ["LocalHost:80"]}, "a host on the network"),
    ({"net": ["*.localhost"]}, "a host on the network"),
    ({"net": ["db.localhost."]}, "a host on the network"),
    ({"net": ["localhost.localdomain"]}, "a host on the network"),
    ({"net": ["ip6-loopback"]}, "a host on the network"),
    ({"net": ["a.org", "a.org"]}, "net: expected each value once, found 'a.org' again"),
    ({"net": [f"a{n}.org" for n in range(65)]}, "net: expected at most 64 values, found 65"),
    ({"env": "A"}, "env: expected a list of texts, found text"),
    ({"env": None}, "env: expected a list of texts, found nothing (null)"),
    ({"env": ["*"]}, "env: expected names of variables, found '*'"),
    ({"secrets": ["A=B"]}, "secrets: expected names of variables"),
    ({"env": ["A"], "secrets": ["A"]}, "secrets: expected each name once, found A in env too"),
    (
        {"uses": ["docker"]},
        "temp, terminal, trash, found docker",
    ),
    ({"uses": ["items"], "project": "read"}, "uses: expected project: write with items, found read"),
    ({"uses": ["git"]}, "uses: expected project: read with git, found none"),
    ({"uses": ["git"], "project": "none"}, "uses: expected project: read with git, found none"),
    ({"read": ["/a"], "write": ["/a"]}, "write: expected each name once, found /a in read too"),
    ({"read": ["/"]}, "read: expected a path below /, found all of it"),
    ({"read": ["~"]}, "read: expected a path below ~, found all of it"),
    ({"read": ["~/"]}, "found all of it"),
    ({"read": ["data"]}, "an absolute path, or one that begins with ~/"),
    ({"read": ["~root/x"]}, "an absolute path, or one that begins with ~/"),
    ({"read": ["/a\n"]}, "an absolute path, or one that begins with ~/"),
    ({"read": ["/a\u202e"]}, "an absolute path, or one that begins with ~/"),
    ({"read": ["/" + "a" * 1024]}, "an absolute path, or one that begins with ~/"),
    ({"read": ["/srv/*"]}, "without patterns and variables"),
    ({"read": ["$HOME/x"]}, "without patterns and variables"),
    ({"write": ["/srv/../etc"]}, "without //, /./, /../"),
    ({"write": ["/srv//a"]}, "without //, /./, /../"),
    ({"write": ["/srv/"]}, "without //, /./, /../"),
    ({"write": ["/home"]}, "in which all of a home is"),
    ({"write": ["/home/ada"]}, "in which all of a home is"),
    ({"write": ["/root"]}, "in which all of a home is"),
    ({"read": ["~/.ssh/id_ed25519"]}, "no tool may see ~/.ssh"),
    ({"read": ["/home/ada/.ssh"]}, "no tool may see ~/.ssh"),
    ({"read": ["/root/.gnupg/x"]}, "no tool may see ~/.gnupg"),
    ({"read": ["~/.local"]}, "no tool may see ~/.local/share/keyrings"),
    ({"read": ["~/.aws"]}, "name a file below ~/.aws"),
    ({"read": ["~/.config"]}, "name a file below ~/.config/gcloud"),
    ({"read": ["/proc/1/environ"]}, "no tool may see /proc"),
    ({"read": ["/var"]}, "no tool may see /var/run"),
    ({"read": ["/run/docker.sock"]}, "no tool may see /run"),
    ({"read": ["/dev/shm"]}, "no tool may see /dev"),
    ({"write": ["/tmp/x"]}, "no tool may see /tmp"),
    ({"calls": ["*"]}, "expected an item id, or directory/* for all below it, found '*'"),
    ({"calls": ["../x"]}, "expected an item id"),
    ({"calls": ["demo/*/x"]}, "expected an item id"),
]


@pytest.mark.parametrize(("value", "message"), BAD, ids=lambda each: str(each)[:40])
def test_what_is_wrong_is_one_issue_that_says_what_was_expected_and_found(value: Any, message: str) -> None:
    _, problems = read_permissions(value)
    assert len(problems) == 1, problems
    assert message in problems[0]
    assert "expected" in problems[0]
    assert "found" in problems[0]


def test_all_issues_are_reported_together() -> None:
    _, problems = read_permissions({"net": ["localhost", "*"], "project": "x", "more": 1, "env": [1]})
    assert len(problems) == 5


@pytest.mark.parametrize(
    ("value", "paths", "wrong"),
    [
        ({"read": ["/opt/python", "~/.nvm"]}, {"/opt/python", "~/.nvm"}, 0),
        ({}, set(), 0),
        ({"read": ["/"]}, set(), 1),
        ({"write": ["/srv"]}, set(), 1),
        (["/srv"], set(), 1),
    ],
    ids=range(5),
)
def test_a_runtime_needs_to_read_and_nothing_else(value: Any, paths: set[str], wrong: int) -> None:
    found, problems = read_needs(value)
    assert (found, len(problems)) == (Permissions(read=frozenset(paths)), wrong)
    assert validate_parameters(value, dict(NEEDS_SCHEMA)).valid is not wrong
