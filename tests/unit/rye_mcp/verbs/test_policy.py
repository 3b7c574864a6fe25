"""What the user has said of all calls; a policy that is wrong restricts."""

from __future__ import annotations

from pathlib import Path

import pytest

from rye_mcp.configuration import to_be_confirmed
from tests.trust_world import World, refused
from tests.verb_world import agent


def policy(world: World, text: str, *, mode: int = 0o644) -> Path:
    path = agent(world).spaces.user.root / "config/rye.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("confirm: [sign, execute]\n", {"sign", "execute"}),
        ("confirm:\n  - sign\n", {"sign"}),
        ("confirm: []\n", set()),
        ("other: 1\n", set()),
    ],
)
def test_the_user_space_says_what_is_asked_about(world: World, text: str, found: set[str]) -> None:
    assert to_be_confirmed(agent(world)) == frozenset()
    policy(world, text)
    assert to_be_confirmed(agent(world)) == found


@pytest.mark.parametrize(
    "text",
    [
        "confirm: sign\n",
        "confirm: true\n",
        "confirm: [sgin]\n",
        "confirm: [sign, trust]\n",
        "confirm: [1]\n",
        "confirm: [sign\n",
        "confirm: {sign: true}\n",
        "confirm: []\nconfirm: [sign]\n",
        "- confirm\n",
    ],
)
def test_a_policy_that_is_wrong_is_a_refusal(world: World, text: str) -> None:
    path = policy(world, text)
    error = refused("invalid_item", lambda: to_be_confirmed(agent(world)))
    assert str(path) in (error.where or error.message)


@pytest.mark.parametrize("mode", [0o664, 0o646, 0o666])
def test_a_policy_that_others_could_change_is_a_refusal(world: World, mode: int) -> None:
    policy(world, "confirm: []\n", mode=mode)
    refused("unsafe_permissions", lambda: to_be_confirmed(agent(world)))


def test_a_space_that_a_group_may_write_to_has_a_policy_too(world: World) -> None:
    policy(world, "confirm: [sign]\n")
    agent(world).spaces.user.root.chmod(0o775)
    assert to_be_confirmed(agent(world)) == {"sign"}


def test_a_policy_that_others_may_change_from_now_on_is_a_refusal(world: World) -> None:
    path = policy(world, "confirm: [sign]\n")
    assert to_be_confirmed(agent(world)) == {"sign"}
    path.parent.chmod(0o777)
    refused("unsafe_permissions", lambda: to_be_confirmed(agent(world)))


def test_a_link_in_its_place_is_a_refusal(world: World, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere.yaml"
    elsewhere.write_text("confirm: []\n")
    path = policy(world, "")
    path.unlink()
    path.symlink_to(elsewhere)
    refused("unsafe_path", lambda: to_be_confirmed(agent(world)))


def test_what_a_project_says_counts_for_nothing(world: World) -> None:
    (world.project / ".ai/config").mkdir(parents=True)
    (world.project / ".ai/config/rye.yaml").write_text("confirm: []\n")
    policy(world, "confirm: [sign]\n")
    assert to_be_confirmed(agent(world)) == {"sign"}
