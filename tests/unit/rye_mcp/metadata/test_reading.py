"""From bytes to metadata: what is text, what is kept, and what an error says."""

import doctest
from types import ModuleType

import pytest

import rye_mcp.items
import rye_mcp.metadata
import rye_mcp.spaces
from rye_mcp.errors import RyeError
from rye_mcp.items import ItemType
from rye_mcp.metadata import examine, parse_metadata
from rye_mcp.spaces import Spaces
from tests.file_helpers import run_python
from tests.metadata_helpers import issues_of, item


@pytest.mark.parametrize("extension", [".py", ".yaml", ".sh", ""])
@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"#!/x\n\xff\n", 2),
        (b"#!/x\nx\x00\n", 2),
        (b"#!/x\r\n", 1),
        (b"#!/x\n\rx = 1", 2),
        (b"\xef\xbb\xbf#!/x\n", 1),
        (b"#!/x\n\xed\xa0\x80\n", 2),
    ],
)
def test_what_is_no_plain_text_is_an_issue(extension: str, content: bytes, line: int) -> None:
    (issue,) = issues_of(item(content, extension))
    assert issue["line"] == line


def test_an_error_says_where_and_how_to_mend_it() -> None:
    with pytest.raises(RyeError) as caught:
        parse_metadata(item("x = 1\n__version__ = 2\n"))
    assert caught.value.where == "/work/project/.ai/tools/demo/hello.py:2"
    assert caught.value.hint == "fix /work/project/.ai/tools/demo/hello.py, then: rye sign demo/hello"
    assert caught.value.details["item_id"] == "demo/hello"


def test_the_same_bytes_are_parsed_once() -> None:
    source = "__version__ = '7.7.7'\n"
    assert parse_metadata(item(source)) is parse_metadata(item(source))


def test_the_same_bytes_of_another_item_are_another_item() -> None:
    source = "# /// rye\n# version: '1.0'\n# ///\n"
    assert parse_metadata(item(source, ".sh", item_id="a/one")).name == "one"
    assert parse_metadata(item(source, ".sh", item_id="a/two")).name == "two"
    assert parse_metadata(item(source, ".sh")).version == "1.0"
    assert parse_metadata(item(source, ".js")).version == "0.0.0"
    assert parse_metadata(item("---\nname: x\n---\n", ".md", ItemType.DIRECTIVE)).name == "x"


def test_what_is_kept_is_bounded() -> None:
    first, *_, last = [parse_metadata(item(f"version: '1.{number}'\n", ".yaml")) for number in range(8193)]
    assert parse_metadata(item("version: '1.8192'\n", ".yaml")) is last
    again = parse_metadata(item("version: '1.0'\n", ".yaml"))
    assert again == first
    assert again is not first


def test_mistakes_are_not_kept() -> None:
    for _ in range(2):
        assert issues_of(item("__version__ = 3\n"))


@pytest.mark.parametrize("name", ["subprocess", "http_client"])
def test_the_items_that_ship_with_the_package_are_right(name: str) -> None:
    found = Spaces.locate().find_executor(name)
    metadata = examine(found.item)
    assert metadata == parse_metadata(found.item)
    assert metadata.is_primitive
    assert metadata.config_schema


def test_without_yaml_its_parser_is_not_loaded() -> None:
    imported = run_python("import sys; import rye_mcp.metadata, rye_mcp.spaces; print(*sys.modules)").split()
    assert not {"ruamel.yaml", "jsonschema", "packaging", "cryptography"} & set(imported)


@pytest.mark.parametrize("content", ["__version__ = '1.0.0'", "CONFIG_SCHEMA = {}"])
def test_without_a_schema_the_checker_is_not_loaded(content: str) -> None:
    script = f"""
import sys
from pathlib import Path
from rye_mcp.items import ItemFile, ItemType, Space, SpaceName
from rye_mcp.metadata import examine

space = Space(SpaceName.PROJECT, Path("/project/.ai"))
path = space.root / "tools/hello.py"
metadata = examine(ItemFile(space, ItemType.TOOL, "hello", ".py", path, {content.encode()!r}))
print(metadata.config_schema is not None, "jsonschema" in sys.modules)
"""
    has_schema = "SCHEMA" in content
    assert run_python(script) == f"{has_schema} {has_schema}\n"


@pytest.mark.parametrize("module", [rye_mcp.items, rye_mcp.metadata, rye_mcp.spaces])
def test_what_is_public_is_listed_and_explained(module: ModuleType) -> None:
    own = {
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and str(getattr(value, "__module__", "")).startswith(module.__name__)
    }
    assert own <= set(module.__all__)
    assert all(hasattr(module, name) for name in module.__all__)
    assert doctest.testmod(module).failed == 0
