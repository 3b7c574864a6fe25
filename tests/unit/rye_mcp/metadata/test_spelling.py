"""Names that are no field, and nearly one."""

from __future__ import annotations

from pathlib import Path

import pytest

from rye_mcp.items import ItemType
from rye_mcp.metadata import PYTHON_NAMES, examine, misspelt, parse_metadata
from tests.metadata_helpers import FIELDS, item

ROOT = Path(__file__).resolve().parents[4]


def said(content: str, extension: str, item_type: ItemType = ItemType.TOOL) -> list[str]:
    file = item(content, extension, item_type)
    examine(file)
    return [str(each) for each in misspelt(file)]


def meant(content: str, extension: str, item_type: ItemType = ItemType.TOOL) -> list[tuple[str, str]]:
    """The names that are told, and what they are taken for."""
    messages = [each.partition(": ")[2] for each in said(content, extension, item_type)]
    return [(each.partition(":")[0], each.rpartition("did you mean ")[2].rstrip("?")) for each in messages]


def test_what_is_said_has_the_line_the_name_and_the_field() -> None:
    content = "# /// rye\n# version: 1.0.0\n# descripton: Says hello.\n# ///\n"
    what = "expected a known field, found none of this name; did you mean description?"
    assert said(content, ".sh") == [f"line 3: descripton: {what}"]


IN_YAML = [
    ("permisions: {}\nexecuter_id: a/b\n", [("permisions", "permissions"), ("executer_id", "executor_id")]),
    ("timeot: 5\n", [("timeot", "config.timeout")]),
    ("timeout: 5\n", [("timeout", "config.timeout")]),
    ("config: {timeout: 5}\n", []),
    ("example: []\n", [("example", "examples")]),
    ("configSchema: {}\n", [("configSchema", "config_schema")]),
    ("author: leo\nlicense: MIT\nhomepage: x\nparameters: {}\ntitle: x\nsummary: x\n", []),
    ("tags: []\ntag: x\n", []),
    (f"{'x' * 1_000}: 1\n", []),
    ("config_schema: {properties: {descripton: {type: string}}}\n", []),
]


@pytest.mark.parametrize(("content", "expected"), IN_YAML)
def test_names_in_yaml(content: str, expected: list[tuple[str, str]]) -> None:
    assert meant(content, ".yaml") == expected


IN_PYTHON = [
    ("__executer_id__ = 'a/b'\n", [("__executer_id__", "__executor_id__")]),
    ("__description__: str = 'x'\n", [("__description__", "__tool_description__")]),
    ("CONFIG_SHEMA = {}\nEXAMPLE = []\n", [("CONFIG_SHEMA", "CONFIG_SCHEMA"), ("EXAMPLE", "EXAMPLES")]),
    ("OUTPUT = 'out.txt'\nconfig_shema = {}\nInputs = []\n", []),
    ("def main():\n    CONFIG_SHEMA = {}\n", []),
    ("if True:\n    CONFIG_SHEMA = {}\n", []),
    ("INPUTS = []\nINPUT = []\n", []),
    ("__all__ = []\n__author__ = 'leo'\n__authors__ = []\n__license__ = ''\n__slots__ = ()\n", []),
    ("__version_info__ = (1, 0)\n__date__ = ''\n__name__ = ''\n__doc__ = ''\n__path__ = []\n", []),
    ("def main():\n    pass\n\n\n__tag__ = []\n", [("__tag__", "__tags__")]),
]


@pytest.mark.parametrize(("content", "expected"), IN_PYTHON)
def test_names_in_python(content: str, expected: list[tuple[str, str]]) -> None:
    assert meant(content, ".py") == expected


@pytest.mark.parametrize("item_type", [ItemType.DIRECTIVE, ItemType.KNOWLEDGE])
def test_a_text_is_not_told_of_fields_that_only_tools_have(item_type: ItemType) -> None:
    content = "---\ndescripton: x\nexecuter_id: a/b\ntimeout: 5\nexample: x\n---\nA text.\n"
    assert meant(content, ".md", item_type) == [("descripton", "description")]


def test_no_field_is_taken_for_another_one() -> None:
    for name in FIELDS:
        if name not in {"tool_type", "executor_id"}:
            assert meant(f"{name}: null\n", ".yaml") == []
    for name in PYTHON_NAMES:
        if name not in {"__tool_type__", "__executor_id__"}:
            assert meant(f"{name} = None\n", ".py") == []


def test_many_names_take_little_time_and_a_few_are_told() -> None:
    content = "".join(f"descripton{number}: 1\n" for number in range(9_000))
    assert 0 < len(said(content, ".yaml")) <= 10


def test_nothing_is_said_of_the_items_that_come_along() -> None:
    looked_at = 0
    for item_type in ItemType:
        for path in sorted((ROOT / ".ai" / item_type.directory).rglob("*")):
            if path.suffix in {".py", ".yaml", ".md"} and "lib" not in path.parts:
                file = item(path.read_bytes(), path.suffix, item_type)
                parse_metadata(file)
                assert misspelt(file) == (), path
                looked_at += 1
    assert looked_at > 20
