"""Attack: an item whose metadata is code, in the hope that whoever lists, loads or signs it runs it."""

from pathlib import Path

import pytest

from rye_mcp.errors import RyeError
from rye_mcp.items import ItemType, SpaceName
from rye_mcp.metadata import examine, parse_metadata
from tests.space_helpers import Ground

PYTHON = [
    "open({canary!r}, 'w').write('x')",
    "__version__ = open({canary!r}, 'w').write('x')",
    "CONFIG = {{'a': open({canary!r}, 'w').write('x')}}",
    "CONFIG = [open({canary!r}, 'w') for _ in 'a'][0]",
    "CONFIG = f\"{{open({canary!r}, 'w')}}\"",
    "CONFIG = (lambda: open({canary!r}, 'w'))()",
    "__executor_id__ = __import__('os').unlink({canary!r})",
    "import os; os.unlink({canary!r})",
    "def f(x=open({canary!r}, 'w')): pass",
    "@(lambda f: open({canary!r}, 'w'))\ndef f(): pass",
    "class A:\n    open({canary!r}, 'w')",
    "class M(type):\n    pass\nclass A(metaclass=open({canary!r}, 'w')): pass",
    "CONFIG: open({canary!r}, 'w') = {{}}",
    "# coding: utf-7\n+AG8AcABlAG4- = 1",
]
YAML = [
    "!!python/object/apply:os.unlink [{canary!r}]",
    "config: !!python/object/apply:os.unlink [{canary!r}]",
    "config: !!python/object/new:os.unlink [{canary!r}]",
    "config: !!python/name:os.unlink ''",
    "config: !!python/module:os ''",
    "config: !include {canary}",
    "!!python/name:os.unlink '' : 1",
    "%TAG !p! tag:yaml.org,2002:python/\n---\nconfig: !p!object/apply:os.unlink [{canary!r}]",
]


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return Ground.in_directory(tmp_path)


def read_in_every_way(ground: Ground, item_type: ItemType = ItemType.TOOL) -> set[str]:
    """Everything that reads an item, once; the codes of what was refused."""
    codes = set()
    for place in ground.spaces.list(SpaceName.PROJECT, item_type).items:
        file = ground.spaces.read(place)
        for read in (parse_metadata, examine):
            try:
                read(file)
            except RyeError as exc:
                codes.add(exc.code)
    return codes


@pytest.mark.parametrize("source", PYTHON)
def test_python_is_never_run(ground: Ground, source: str) -> None:
    before = ground.canary.read_bytes()
    ground.write("project", "tools/demo/hello.py", source.format(canary=str(ground.canary)).encode())
    assert read_in_every_way(ground) <= {"invalid_item"}
    assert ground.canary.read_bytes() == before


@pytest.mark.parametrize("source", YAML)
@pytest.mark.parametrize("path", ["tools/demo/hello.yaml", "tools/demo/hello.sh", "directives/demo/hello.md"])
def test_yaml_makes_no_objects(ground: Ground, source: str, path: str) -> None:
    before = ground.canary.read_bytes()
    text = source.format(canary=str(ground.canary))
    if path.endswith(".sh"):
        text = "\n".join(f"# {line}" for line in ("/// rye", *text.split("\n"), "///"))
    if path.endswith(".md"):
        text = f"---\n{text}\n---\n"
        text = text.replace("\n---\nconfig", "\nconfig")
    ground.write("project", path, text.encode())
    item_type = ItemType.DIRECTIVE if path.endswith(".md") else ItemType.TOOL
    assert read_in_every_way(ground, item_type) == {"invalid_item"}
    assert ground.canary.read_bytes() == before


@pytest.mark.parametrize("schema", ["{'$ref': '%s'}", "{'$ref': 'file://%s'}", "{'$schema': '%s'}"])
def test_a_schema_reads_no_file(ground: Ground, schema: str) -> None:
    ground.canary.write_text('{"type": "object"}')
    ground.write("project", "tools/demo/hello.py", f"CONFIG_SCHEMA = {schema % ground.canary}\n".encode())
    file = ground.spaces.find("demo/hello").item
    with pytest.raises(RyeError) as caught:
        examine(file)
    assert caught.value.code == "invalid_item"
