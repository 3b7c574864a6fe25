"""Signing items: who signs what, what is looked at first, and what comes back."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import pytest

from rye_mcp.errors import RyeError
from rye_mcp.items import ItemPlace, ItemType, SpaceName
from rye_mcp.trust.scope import SignerKind
from rye_mcp.trust.trust_document import TrustDocument
from rye_mcp.verbs.context import Context
from rye_mcp.verbs.sign import BatchResult, SignRequest, SignResult, plan, sign
from tests.trust_world import World, new_key, refused
from tests.verb_world import DIRECTIVE, RUNTIME, agent, path_of, person, put, tool

USER = SpaceName.USER


def test_the_answer_has_the_shape_that_agents_are_promised(world: World) -> None:
    file = put(world, tool())
    result = sign(SignRequest("demo/hello"), person(world))
    assert isinstance(result, SignResult)
    answer = result.as_dict()
    assert json.loads(json.dumps(answer)) == answer
    assert set(answer) == {"status", "item_id", "path", "signer", "hash", "timestamp", "warnings"}
    assert answer["status"] == "signed"
    assert (answer["item_id"], answer["path"]) == ("demo/hello", str(file.path))
    assert answer["signer"]["kind"] == "person"
    assert answer["warnings"] == []
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", answer["timestamp"])
    assert world.verify(replace(file, content=file.path.read_bytes())).digest == answer["hash"]


def test_an_agent_signs_with_a_key_of_its_own_which_is_made_for_it(world: World) -> None:
    put(world, tool())
    result = sign(SignRequest("demo/hello"), agent(world))
    assert isinstance(result, SignResult)
    assert result.item.signer.kind is SignerKind.AGENT
    assert result.item.signer.fingerprint == world.keys.show(SignerKind.AGENT).fingerprint


def test_no_key_is_made_for_what_is_not_signed(world: World) -> None:
    put(world, b"def broken(:\n")
    refused("invalid_item", lambda: sign(SignRequest("demo/hello"), agent(world)))
    refused("no_key", lambda: world.keys.show(SignerKind.AGENT))


def test_a_person_without_a_key_is_told_how_to_make_one(world: World) -> None:
    put(world, tool())
    context = replace(agent(world), caller=SignerKind.PERSON)
    assert refused("no_key", lambda: sign(SignRequest("demo/hello"), context)).hint == "rye keys generate"


def test_a_passphrase_is_asked_for_only_when_there_is_somebody_to_ask(world: World) -> None:
    world.keys.generate(SignerKind.PERSON, owner="leo", passphrase=b"open")
    put(world, tool())
    refused("passphrase_required", lambda: sign(SignRequest("demo/hello"), person(world)))
    wrong = person(world, ask_passphrase=lambda: b"wrong")
    refused("passphrase_required", lambda: sign(SignRequest("demo/hello"), wrong))
    result = sign(SignRequest("demo/hello"), person(world, ask_passphrase=lambda: b"open"))
    assert isinstance(result, SignResult)


def test_a_batch_asks_for_the_passphrase_once(world: World) -> None:
    world.keys.generate(SignerKind.PERSON, owner="leo", passphrase=b"open")
    asked: list[int] = []

    def ask() -> bytes:
        asked.append(1)
        return b"open"

    for name in "abc":
        put(world, tool(), f"demo/{name}")
    result = sign(SignRequest("demo/*"), person(world, ask_passphrase=ask))
    assert isinstance(result, BatchResult)
    assert len(result.signed) == 3
    assert asked == [1]


def test_everything_that_is_wrong_is_said_at_once_with_its_line(world: World) -> None:
    content = b'__version__ = 1.0\n__tool_type__ = "spell"\nCONFIG_SCHEMA = {"type": "nothing"}\n'
    file = put(world, content)
    error = refused("invalid_item", lambda: sign(SignRequest("demo/hello"), person(world)))
    answer = error.as_dict()
    assert answer["status"] == "error"
    assert [issue["line"] for issue in answer["issues"]] == [1, 2, 3]
    assert all(issue["message"] for issue in answer["issues"])
    assert file.path.read_bytes() == content


def test_a_missing_executor_is_a_warning(world: World) -> None:
    put(world, tool(executor="nobody/runs/this"))
    result = sign(SignRequest("demo/hello"), person(world))
    assert isinstance(result, SignResult)
    (warning,) = result.as_dict()["warnings"]
    assert warning["code"] == "executor_not_found"
    assert "nobody/runs/this" in warning["message"]


def test_an_executor_of_a_higher_space_is_as_good_as_missing(world: World) -> None:
    put(world, RUNTIME, "runs/mine", ".yaml", signed=True)
    put(world, tool(executor="runs/mine"), space=USER)
    result = sign(SignRequest("demo/hello", source=USER), person(world))
    assert isinstance(result, SignResult)
    assert [warning.code for warning in result.warnings] == ["executor_not_found"]


@pytest.mark.parametrize("item_type", [ItemType.DIRECTIVE, ItemType.KNOWLEDGE])
def test_other_types_are_signed_too(world: World, item_type: ItemType) -> None:
    put(world, DIRECTIVE, "greet", ".md", item_type=item_type)
    result = sign(SignRequest("greet", item_type), agent(world))
    assert isinstance(result, SignResult)
    assert not result.warnings


def test_a_person_signs_a_runtime_in_the_user_space(world: World) -> None:
    put(world, RUNTIME, "runs/mine", ".yaml", space=USER)
    result = sign(SignRequest("runs/mine", source=USER), person(world))
    assert isinstance(result, SignResult)
    assert result.item.file.path == path_of(world, USER, "runs/mine", ".yaml")


def test_a_person_promotes_what_an_agent_signed(world: World) -> None:
    put(world, tool())
    sign(SignRequest("demo/hello"), agent(world))
    before = world.keys.show(SignerKind.AGENT).fingerprint
    result = sign(SignRequest("demo/hello"), person(world))
    assert isinstance(result, SignResult)
    assert result.item.signer.owner == "leo"
    (warning,) = result.warnings
    assert warning.code == "signer_changed"
    assert before in warning.message
    again = sign(SignRequest("demo/hello"), person(world))
    assert isinstance(again, SignResult)
    assert again.warnings == ()


def test_without_a_project_there_is_nothing_to_sign_in(world: World) -> None:
    context = person(world)
    nowhere = replace(context, spaces=replace(context.spaces, project=None))
    refused("no_project", lambda: sign(SignRequest("demo/hello"), nowhere))
    refused("no_project", lambda: sign(SignRequest("demo/*"), nowhere))


@pytest.mark.parametrize("item_id", ["rye/core/primitives/subprocess", "rye/*"])
def test_the_system_is_sealed(world: World, item_id: str) -> None:
    request = SignRequest(item_id, source=SpaceName.SYSTEM)
    refused("out_of_scope", lambda: sign(request, person(world)))


# --- patterns ---


def test_a_pattern_signs_what_it_can_and_says_what_it_cannot(world: World) -> None:
    for name in ("a", "b/c"):
        put(world, tool(), f"demo/{name}")
    put(world, tool(), "other/d")
    broken = put(world, b"def broken(:\n", "demo/broken")
    (world.project / ".ai/tools/demo/link.py").symlink_to("a.py")
    result = sign(SignRequest("demo/*"), person(world))
    assert isinstance(result, BatchResult)
    answer = result.as_dict()
    assert json.loads(json.dumps(answer)) == answer
    assert set(answer) == {"status", "signed", "failed", "unchanged", "total"}
    assert (answer["status"], answer["total"]) == ("completed", 4)
    assert [each["item_id"] for each in answer["signed"]] == ["demo/a", "demo/b/c"]
    assert [(each["item_id"], each["code"]) for each in answer["failed"]] == [
        ("demo/broken", "invalid_item"),
        ("demo/link", "unsafe_path"),
    ]
    assert all(each["error"] and each["hint"] for each in answer["failed"])
    assert answer["failed"][0]["issues"][0]["line"] == 1
    assert broken.path.read_bytes() == b"def broken(:\n"
    assert b"rye:signed:" not in path_of(world, SpaceName.PROJECT, "other/d").read_bytes()


def test_a_pattern_leaves_what_is_validly_signed_as_it_is(world: World) -> None:
    put(world, tool(), "demo/own")
    put(world, tool("pass"), "demo/of_agent")
    friend = new_key()
    world.trust_key(TrustDocument.create(friend.public, "alice"))
    of_friend = world.stored(world.signed(world.file(tool("'hers'"), item_id="demo/of_friend"), friend))
    sign(SignRequest("demo/of_agent"), agent(world))
    sign(SignRequest("demo/own"), person(world))
    put(world, tool("'new'"), "demo/new")
    own = path_of(world, SpaceName.PROJECT, "demo/own").read_bytes()
    result = sign(SignRequest("*"), person(world))
    assert isinstance(result, BatchResult)
    assert [each.item.file.item_id for each in result.signed] == ["demo/new"]
    assert (result.unchanged, result.failed) == (("demo/of_agent", "demo/of_friend", "demo/own"), ())
    assert result.total == 4
    assert path_of(world, SpaceName.PROJECT, "demo/own").read_bytes() == own
    assert of_friend.path.read_bytes() == of_friend.content
    assert plan(SignRequest("*"), person(world)).item_ids == ()


def test_a_pattern_signs_again_what_a_former_key_of_the_same_person_signed(world: World) -> None:
    put(world, tool())
    sign(SignRequest("demo/hello"), person(world))
    world.keys.rotate(SignerKind.PERSON, owner="leo")
    result = sign(SignRequest("*"), person(world))
    assert isinstance(result, BatchResult)
    (signed,) = result.signed
    assert signed.warnings == ()


def test_a_signer_of_the_same_name_is_not_the_former_signer(world: World) -> None:
    """A former key is one that signed the rotation, not one of an owner of the same name."""
    friend = new_key()
    world.trust_key(TrustDocument.create(friend.public, "leo"))
    file = world.stored(world.signed(world.file(tool()), friend))
    result = sign(SignRequest("*"), person(world))
    assert isinstance(result, BatchResult)
    assert (result.signed, result.unchanged) == ((), ("demo/hello",))
    assert file.path.read_bytes() == file.content


def test_a_former_key_whose_rotation_nobody_signed_is_that_of_another_person(world: World) -> None:
    put(world, tool())
    sign(SignRequest("demo/hello"), person(world))
    world.keys.rotate(SignerKind.PERSON, owner="leo", linked=False)
    result = sign(SignRequest("*"), person(world))
    assert isinstance(result, BatchResult)
    assert (result.signed, result.unchanged) == ((), ("demo/hello",))
    again = sign(SignRequest("demo/hello"), person(world))
    assert isinstance(again, SignResult)
    assert [warning.code for warning in again.warnings] == ["signer_changed"]


def test_an_agents_pattern_passes_over_what_a_person_signed(world: World) -> None:
    put(world, tool())
    sign(SignRequest("demo/hello"), person(world))
    put(world, tool("'new'"), "demo/new")
    result = sign(SignRequest("demo/*"), agent(world))
    assert isinstance(result, BatchResult)
    assert ([each.item.file.item_id for each in result.signed], result.unchanged) == (
        ["demo/new"],
        ("demo/hello",),
    )


def test_a_runtime_that_a_pattern_signs_after_its_tool_is_no_reason_to_warn(world: World) -> None:
    put(world, tool(executor="demo/runtime"), "demo/hello")
    put(world, RUNTIME, "demo/runtime", ".yaml")
    result = sign(SignRequest("demo/*"), person(world))
    assert isinstance(result, BatchResult)
    assert [(each.item.file.item_id, each.warnings) for each in result.signed] == [
        ("demo/hello", ()),
        ("demo/runtime", ()),
    ]


def test_a_pattern_that_matches_nothing_is_an_error(world: World) -> None:
    put(world, tool())
    refused("item_not_found", lambda: sign(SignRequest("nothing/*"), person(world)))


def test_a_caller_that_shows_progress_sees_every_item(world: World) -> None:
    for name in "ab":
        put(world, tool(), name)
    seen: list[str] = []

    def tracked(places: Sequence[ItemPlace]) -> Iterator[ItemPlace]:
        for place in places:
            seen.append(place.item_id)
            yield place

    sign(SignRequest("*"), person(world), tracked=tracked)
    assert seen == ["a", "b"]


def test_an_item_that_goes_away_meanwhile_fails_alone(world: World) -> None:
    for name in "ab":
        put(world, tool(), name)

    def tracked(places: Sequence[ItemPlace]) -> Iterator[ItemPlace]:
        path_of(world, SpaceName.PROJECT, "a").unlink()
        yield from places

    result = sign(SignRequest("*"), person(world), tracked=tracked)
    assert isinstance(result, BatchResult)
    assert [(each.item_id, each.error.code) for each in result.failed] == [("a", "item_not_found")]
    assert [each.item.file.item_id for each in result.signed] == ["b"]
    assert all(isinstance(each.error, RyeError) for each in result.failed)


PLAIN = b"def main():\n    return 1\n"


@pytest.mark.parametrize("who", [person, agent])
def test_a_script_that_names_no_executor_is_signed_with_a_warning_that_says_what_to_write(
    world: World, who: Callable[[World], Context]
) -> None:
    put(world, PLAIN, "demo/plain")
    result = sign(SignRequest("demo/plain"), who(world))
    assert isinstance(result, SignResult)
    (warning,) = result.warnings
    assert warning.code == "not_runnable"
    assert '__executor_id__ = "rye/core/runtimes/python_runtime"' in warning.message


@pytest.mark.parametrize(
    ("content", "extension"),
    [(b"__tool_type__ = 'library'\n", ".py"), (b"name: parts\n", ".yaml"), (b"-- parts\n", ".sql")],
)
def test_a_library_on_purpose_and_what_no_runtime_is_for_are_signed_without_a_word(
    world: World, content: bytes, extension: str
) -> None:
    put(world, content, "demo/parts", extension)
    result = sign(SignRequest("demo/parts"), person(world))
    assert isinstance(result, SignResult)
    assert result.warnings == ()


def test_a_pattern_warns_of_no_library(world: World) -> None:
    put(world, PLAIN, "demo/plain")
    result = sign(SignRequest("demo/*"), person(world))
    assert isinstance(result, BatchResult)
    assert [each.warnings for each in result.signed] == [()]


@pytest.mark.parametrize("pattern", ["demo/hello", "demo/*"])
def test_a_misspelt_field_is_signed_with_a_warning_that_has_its_line_in_the_signed_file(
    world: World, pattern: str
) -> None:
    file = put(world, tool() + b"\n\nCONFIG_SHEMA = {}\n")
    result = sign(SignRequest(pattern), person(world))
    (signed,) = result.signed if isinstance(result, BatchResult) else (result,)
    (warning,) = signed.warnings
    line = file.path.read_text().splitlines().index("CONFIG_SHEMA = {}") + 1
    assert warning.code == "unknown_field"
    assert warning.message.startswith(f"line {line}: CONFIG_SHEMA: ")
    assert warning.message.endswith("did you mean CONFIG_SCHEMA?")


def test_a_misspelt_field_of_a_text_is_a_warning_too(world: World) -> None:
    content = DIRECTIVE.replace(b"description:", b"descripton:")
    put(world, content, "greet", ".md", item_type=ItemType.DIRECTIVE)
    result = sign(SignRequest("greet", ItemType.DIRECTIVE), agent(world))
    assert isinstance(result, SignResult)
    assert [warning.code for warning in result.warnings] == ["unknown_field"]
