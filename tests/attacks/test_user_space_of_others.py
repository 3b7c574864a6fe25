"""Attack: another user looks into what docs/reference/files.md says that only its owner reads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rye_mcp.app import App, Settings
from rye_mcp.items import SpaceName
from rye_mcp.trust.trust_document import TrustDocument
from rye_mcp.trust.trust_store import revoke
from rye_mcp.verbs.new import NewRequest, new
from tests.people import Person
from tests.trust_world import World, new_key
from tests.users import BOB, as_user, two_users


def with_an_item(world: World) -> None:
    settings = Settings.find(user_directory=world.user_space.parent, state=world.state, environment={})
    new(NewRequest("own/hello", space=SpaceName.USER), App.open(settings).context())


MADE_BY: dict[str, Callable[[World], object]] = {
    "keys": lambda world: world.key(),
    "revoking": lambda world: revoke(world.user_space, "a" * 64, "the laptop of eve"),
    "trusting": lambda world: world.trust_key(TrustDocument.create(new_key().public, "mia")),
    "a new item": with_an_item,
}


@pytest.mark.parametrize("made_by", MADE_BY)
def test_whatever_makes_the_user_space_makes_it_private(world: World, made_by: str) -> None:
    MADE_BY[made_by](world)
    assert world.user_space.stat().st_mode & 0o777 == 0o700


@two_users
def test_another_user_reads_nothing_in_it(everybody: Path) -> None:
    everybody.chmod(0o755)
    world = World(everybody)
    revoke(world.user_space, "a" * 64, "the laptop of eve")

    def look() -> str:
        try:
            return (world.user_space / "revoked.toml").read_text()
        except PermissionError:
            return "nothing"

    assert as_user(BOB, look) == "nothing"


@pytest.mark.thorough
def test_the_mode_that_a_person_has_set_stays_and_the_doctor_tells(tmp_path: Path) -> None:
    ada = Person("ada", tmp_path / "ada")
    ada.user_space.mkdir(parents=True, mode=0o755)
    ada.user_space.chmod(0o755)
    ada.rye("init", cwd=tmp_path, code=None)
    assert ada.user_space.stat().st_mode & 0o777 == 0o755
    told = ada.rye("doctor", "--json", cwd=tmp_path, code=None).json["findings"]
    [found] = [each for each in told if each["check"] == "user space"]
    assert (found["state"], found["hint"]) == ("warning", f"chmod go= {ada.user_space}")
