"""Looking at every item: whether it passes, who signed it, what it hides."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from rye_mcp.items import ItemPlace, ItemType, SpaceName
from rye_mcp.verbs.sign import SignRequest, sign
from rye_mcp.verbs.survey import SurveyRequest, survey
from tests.trust_world import World, refused
from tests.verb_world import DIRECTIVE, person, put, tool

PROJECT, USER = SpaceName.PROJECT, SpaceName.USER


def test_nothing_is_left_out(world: World) -> None:
    put(world, tool(), "demo/good", signed=True)
    put(world, tool(), "demo/bare")
    put(world, tool().replace(b'"1.2.0"', b"1.2"), "demo/nonsense", signed=True)
    put(world, DIRECTIVE, "greet", ".md", item_type=ItemType.DIRECTIVE, space=USER, signed=True)
    (world.project / ".ai/tools/demo/link.py").symlink_to("good.py")
    found = survey(SurveyRequest(), person(world))
    by_id = {item.item_id: item for item in found.items}
    assert {item_id: item.integrity.state for item_id, item in by_id.items() if "rye/" not in item_id} == {
        "demo/good": "verified",
        "demo/bare": "unsigned",
        "demo/nonsense": "invalid_item",
        "demo/link": "unsafe_path",
        "greet": "verified",
    }
    assert by_id["rye/core/primitives/subprocess"].space is SpaceName.SYSTEM
    answer = found.as_dict()
    assert json.loads(json.dumps(answer)) == answer
    assert (answer["status"], answer["refused"]) == ("refused", 3)
    assert answer["total"] == answer["verified"] + 3 == len(found.items)


def test_what_only_a_good_listing_carries_is_no_refusal(world: World) -> None:
    """A helper without a line, a broken one, two files of one id, and data that is named like an item."""
    put(world, tool())
    helper = put(world, b"x = 1\n", "demo/helper").path
    beside = {
        "twice.py": b"y = 1\n",
        "twice.sh": b"echo\n",
        "lib/broken.py": b"def (:\n",
        "lib/data.yaml": b"a: 1\n",
    }
    for name, content in beside.items():
        path = helper.with_name("lib").parent / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
    sign(SignRequest("demo/hello", companions=("helper.py", *beside)), person(world))
    before = survey(SurveyRequest("demo/*"), person(world))
    states = {item.path.name: item.integrity.state for item in before.items}
    parts = ("helper.py", "twice.py", "broken.py", "data.yaml")
    assert states == {"hello.py": "verified"} | dict.fromkeys(parts, "carried")
    answer = before.as_dict()
    assert answer["status"] == "verified"
    assert (answer["carried"], answer["verified"], answer["refused"]) == (4, 1, 0)
    carried = next(each for each in answer["items"] if each["item_id"] == "demo/helper")
    assert carried["integrity"]["listing"] == str(helper.with_name("deps.manifest.yaml"))
    assert carried["integrity"]["signer"]["owner"] == "leo"

    helper.write_bytes(b"x = 2\n")
    after = survey(SurveyRequest("demo/*"), person(world))
    assert {item.path.name for item in after.refused} == {"helper.py"}
    (one,) = survey(SurveyRequest("demo/helper"), person(world)).items
    assert one.integrity.state == "unsigned"

    listing = helper.with_name("deps.manifest.yaml")
    listing.write_bytes(listing.read_bytes().replace(b"a", b"b", 1))
    nothing = survey(SurveyRequest("demo/*"), person(world))
    assert not nothing.carried


def test_the_order_is_that_of_precedence_then_ids(world: World) -> None:
    for space, item_id in ((USER, "a"), (PROJECT, "z"), (PROJECT, "b")):
        put(world, tool(), item_id, space=space, signed=True)
    found = [item.item_id for item in survey(SurveyRequest(), person(world)).items]
    assert found[:3] == ["b", "z", "a"]


def test_what_is_hidden_is_marked_and_looked_at_all_the_same(world: World) -> None:
    put(world, tool(), signed=True)
    put(world, tool(), space=USER)
    found = survey(SurveyRequest("demo/*"), person(world)).items
    assert [(item.space, item.shadowed, item.integrity.state) for item in found] == [
        (PROJECT, False, "verified"),
        (USER, True, "unsigned"),
    ]


def test_a_description_of_an_unverified_item_is_not_repeated(world: World) -> None:
    put(world, tool())
    (item,) = survey(SurveyRequest("demo/hello"), person(world)).items
    assert (item.description, item.version) == ("", None)
    assert "Says hello" not in json.dumps(item.as_dict())


def test_one_id_is_found_by_precedence_or_in_one_space(world: World) -> None:
    put(world, tool(), signed=True)
    put(world, tool(), space=USER)
    assert survey(SurveyRequest("demo/hello"), person(world)).as_dict()["status"] == "verified"
    assert survey(SurveyRequest("demo/hello", space=USER), person(world)).as_dict()["status"] == "refused"


def test_a_pattern_without_a_match_is_an_error_but_an_empty_world_is_not(world: World) -> None:
    context = person(world)
    refused("item_not_found", lambda: survey(SurveyRequest("nothing"), context))
    refused("item_not_found", lambda: survey(SurveyRequest("nothing/*"), context))
    assert survey(SurveyRequest(space=PROJECT), context).as_dict()["total"] == 0


def test_a_type_and_a_space_narrow_it_down(world: World) -> None:
    put(world, tool(), signed=True)
    put(world, DIRECTIVE, "greet", ".md", item_type=ItemType.DIRECTIVE, signed=True)
    found = survey(SurveyRequest(item_type=ItemType.DIRECTIVE, space=PROJECT), person(world)).items
    assert [item.item_id for item in found] == ["greet"]


def test_an_id_is_looked_for_in_every_type(world: World) -> None:
    put(world, DIRECTIVE, "greet", ".md", item_type=ItemType.DIRECTIVE, signed=True)
    put(world, DIRECTIVE, "greet", ".md", item_type=ItemType.KNOWLEDGE)
    found = survey(SurveyRequest("greet"), person(world)).items
    assert [(item.item_type, item.integrity.state) for item in found] == [
        (ItemType.DIRECTIVE, "verified"),
        (ItemType.KNOWLEDGE, "unsigned"),
    ]
    refused("item_not_found", lambda: survey(SurveyRequest("greet", ItemType.TOOL), person(world)))


def test_an_id_that_stands_for_two_files_is_an_error_and_not_missing(world: World) -> None:
    put(world, tool(), extension=".py")
    put(world, b"echo hello\n", extension=".sh")
    refused("ambiguous_item", lambda: survey(SurveyRequest("demo/hello"), person(world)))
    (item,) = survey(SurveyRequest("demo/*"), person(world)).items
    assert (item.item_id, item.integrity.state) == ("demo/hello", "ambiguous_item")


def test_what_goes_away_meanwhile_is_said(world: World) -> None:
    for name in "ab":
        put(world, tool(), name, signed=True)

    def tracked(places: Sequence[ItemPlace]) -> Iterator[ItemPlace]:
        places[0].path.unlink()
        yield from places

    found = survey(SurveyRequest(space=PROJECT), person(world), tracked=tracked).items
    assert [(item.item_id, item.integrity.state) for item in found] == [
        ("a", "item_not_found"),
        ("b", "verified"),
    ]
