"""A schema that seems to limit a value, and does not: the name of its keyword is none.

Whoever signs reads `maxLenght: 3` as a limit. Validators ignore the names that no draft defines.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lilux.schemas.schema_validator import unknown_keywords
from rye_mcp.items import ItemType
from rye_mcp.verbs.context import Context
from rye_mcp.verbs.sign import BatchResult, SignRequest, sign
from tests.system_schemas import schemas_of_the_package
from tests.trust_world import World
from tests.verb_world import agent, person, put

By = Callable[[World], Context]

TOOL = b"""\
name: hello
version: "1.0.0"
description: Says hello.
executor_id: rye/core/primitives/verbs
"""

SCHEMAS = {
    "a misspelt keyword": (
        b"config_schema: {type: object, properties: {name: {type: string, maxLenght: 3}}}\n",
        "config_schema: expected keywords of JSON Schema, found /properties/name/maxLenght",
    ),
    "a comma without quotes": (
        b"output_schema: {type: object, properties: {n: {description: How many, at most}}}\n",
        "output_schema: expected keywords of JSON Schema, found /properties/n/at most",
    ),
    "deep inside": (
        b"config_schema: {$defs: {a: {anyOf: [{not: {items: {contain: {}}}}]}}}\n",
        "config_schema: expected keywords of JSON Schema, found /$defs/a/anyOf/0/not/items/contain",
    ),
    "a name that hides": (
        b'config_schema: {type: object, "max\\u202eLength": 3}\n',
        "config_schema: expected keywords of JSON Schema, found /max\\u202eLength",
    ),
}

HARMLESS = b"""\
config_schema:
  type: object
  x-mcp-header: Region
  default: {maxLenght: 3}
  properties: {maxLenght: {const: {minItem: 1}}, region: {type: string, x-mcp-header: Region}}
  definitions: {old: {type: array, prefixItems: [{}], additionalItems: false}}
"""


@pytest.mark.parametrize("by", [person, agent], ids=["a person", "an agent"])
@pytest.mark.parametrize("schema", SCHEMAS)
def test_its_signer_is_told(tmp_path: Path, schema: str, by: By) -> None:
    content, expected = SCHEMAS[schema]
    assert _warnings(tmp_path, TOOL + content, by) == [expected]


def test_names_that_are_data_or_for_programs_are_left_alone(tmp_path: Path) -> None:
    assert _warnings(tmp_path, TOOL + HARMLESS, person) == []


def test_no_schema_of_the_package_has_such_a_name() -> None:
    schemas = schemas_of_the_package()
    assert len(schemas) > 40
    assert {
        where: found for where, schema in schemas.items() if (found := list(unknown_keywords(schema)))
    } == {}


def _warnings(place: Path, content: bytes, by: By) -> list[str]:
    world = World(place)
    put(world, content, "demo/hello", ".yaml")
    signed = sign(SignRequest("demo/*", ItemType.TOOL), by(world))
    assert isinstance(signed, BatchResult)
    assert signed.failed == ()
    found = [each for result in signed.signed for each in result.warnings if each.code == "unknown_keyword"]
    return [each.message.partition(": correct")[0] for each in found]
