"""What a confined run was denied is named, with what would have allowed it, and nothing that it could see."""

from __future__ import annotations

import pytest

from rye_mcp.permissions import UNCONFINED, Access, Permissions
from rye_mcp.permissions.denials import suspect
from rye_mcp.permissions.planning import Facts

WHERE = Facts(home="/home/ada", project="/work/shop", hidden=("/home/ada/.ai",))
THERE = {"/srv/data/a.csv", "/srv/a b", "/home/ada/.aws/credentials", "/work/shop/x", "/usr/lib/x"}


def found(stderr: str, *refused: str, granted: Permissions = Permissions()) -> dict[str, object] | None:  # noqa: B008
    denial = suspect(refused, stderr, granted, WHERE, THERE.__contains__)
    return None if denial is None else denial.as_dict()


@pytest.mark.parametrize(
    ("stderr", "expected"),
    [
        ("", None),
        ("cat: /srv/data/a.csv: No such file or directory", {"read": ["/srv/data/a.csv"]}),
        ("[Errno 2] No such file or directory: '/srv/a b'", {"read": ["/srv/a b"]}),
        ("cannot open /work/shop/x.", {"project": "read"}),
        ("File /usr/lib/x, line 3", None),
        ("no such file: /srv/data/absent", None),
        ("see https://example.org/srv/data/a.csv", None),
        ("a/srv/data/a.csv", None),
        ("/srv/data/a.csv\n" + "x\n" * 30, None),
    ],
)
def test_a_path_that_is_there_and_hidden_is_likely(stderr: str, expected: dict[str, object] | None) -> None:
    answer = found(stderr)
    assert (None if answer is None else answer["would_need"]) == expected
    assert answer is None or (answer["certain"], len(answer["likely"])) == ([], 1)  # type: ignore[arg-type]


def test_a_name_that_the_door_has_refused_is_certain() -> None:
    answer = found("", "api.github.com", "api.github.com", "x.org")
    assert answer == {
        "certain": ["api.github.com", "x.org"],
        "likely": [],
        "would_need": {"net": ["api.github.com", "x.org"]},
    }


def test_what_is_granted_already_is_no_denial() -> None:
    granted = Permissions(project=Access.READ, read=frozenset({"/srv/data"}))
    assert found("/work/shop/x /srv/data/a.csv", granted=granted) is None
    assert found("/srv/data/a.csv", "x.org", granted=UNCONFINED) is None


def test_a_hidden_place_is_named_and_no_permission_is_proposed_for_it() -> None:
    answer = found("cannot read /home/ada/.aws/credentials")
    assert answer is not None
    assert answer["likely"] == ["/home/ada/.aws/credentials"]
    assert "would_need" not in answer
    assert "~/.aws/credentials: not proposed" in answer["notes"][0]  # type: ignore[index]


def test_a_flood_of_lines_costs_little_and_names_a_few() -> None:
    there = {f"/srv/{number}" for number in range(100)}
    text = " /" * 1_000_000 + "\n" + " ".join(sorted(there)) + " /" * 10_000
    denial = suspect([], text, Permissions(), WHERE, there.__contains__)
    assert denial is not None
    assert len(denial.likely) <= 8
