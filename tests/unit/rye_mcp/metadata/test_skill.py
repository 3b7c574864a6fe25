"""The front matter of a skill: what the specification has, every fault it names, and tricks of YAML."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType

import pytest

from rye_mcp.errors import RyeError
from rye_mcp.items import ItemFile, ItemType, ListedFile, SkillFiles, Space, SpaceName
from rye_mcp.metadata import body_of, examine, front_matter, parse_metadata

_PLACE = Path("/project/.ai")


def _skill(front: str, body: str = "Do it.\n", name: str = "brew-tea") -> ItemFile:
    return _raw(f"---\n{front}---\n{body}".encode(), name)


def _raw(text: bytes, name: str = "brew-tea") -> ItemFile:
    files = SkillFiles(text, MappingProxyType({"SKILL.md": ListedFile("0" * 64, len(text))}))
    path = _PLACE / f"skills/{name}.rye.sig.yaml"
    return ItemFile(Space(SpaceName.PROJECT, _PLACE), ItemType.SKILL, name, ".rye.sig.yaml", path, b"", files)


_GOOD = "name: brew-tea\ndescription: Brews tea.\n"


def test_what_a_skill_says() -> None:
    file = _skill(
        _GOOD + "license: MIT\ncompatibility: Needs a kettle.\nmetadata:\n  version: '1.2'\n  author: Ada\n"
        "allowed-tools: Bash(git:*) Read\n"
    )
    metadata = examine(file)
    assert (metadata.name, metadata.description, metadata.version) == ("brew-tea", "Brews tea.", "1.2")
    assert metadata.extra["allowed-tools"] == "Bash(git:*) Read"
    assert metadata.permissions is None
    assert body_of(file) == "Do it.\n"
    assert front_matter(file)["metadata"] == {"version": "1.2", "author": "Ada"}


@pytest.mark.parametrize(
    "front",
    [
        _GOOD + "metadata: {version: 1.0}\n",
        _GOOD + "allowed-tools:\n  - Read\n  - Bash\n",
        f"name: brew-tea\ndescription: {'x' * 1024}\n",
        f"{_GOOD}compatibility: {'x' * 500}\n",
    ],
)
def test_what_is_right(front: str) -> None:
    assert examine(_skill(front)).description in ("Brews tea.", "x" * 1024)


@pytest.mark.parametrize(
    ("front", "said"),
    [
        ("description: Brews tea.\n", "name: expected one"),
        ("name: brew-tea\n", "description: expected one"),
        ("", "name: expected one"),
        ("name: Brew-Tea\ndescription: x\n", "name: expected brew-tea"),
        ("name: other\ndescription: x\n", "name: expected brew-tea, as its directory is called"),
        ("name: 5\ndescription: x\n", "name: expected brew-tea"),
        ("name: [brew-tea]\ndescription: x\n", "name: expected brew-tea"),
        ("name: brew-tea\ndescription: ''\n", "description: expected text that is not blank"),
        ("name: brew-tea\ndescription: '  '\n", "description: expected text that is not blank"),
        (f"name: brew-tea\ndescription: {'x' * 1025}\n", "description: expected at most 1024"),
        ("name: brew-tea\ndescription: true\n", "description: expected text"),
        ("name: brew-tea\ndescription: [x]\n", "description: expected text"),
        (f"{_GOOD}compatibility: {'x' * 501}\n", "compatibility: expected at most 500"),
        (f"{_GOOD}compatibility: ''\n", "compatibility: expected text that is not blank"),
        (f"{_GOOD}license: [MIT]\n", "license: expected text"),
        (f"{_GOOD}metadata: text\n", "metadata: expected a mapping"),
        (f"{_GOOD}metadata: {{a: {{b: c}}}}\n", "metadata: expected text for 'a'"),
        (f"{_GOOD}allowed-tools: 5\n", "allowed-tools: expected names"),
        (f"{_GOOD}hooks: {{}}\n", "hooks: expected one of name, description"),
        (f"{_GOOD}name: brew-tea\n", "expected each key once"),
        (f"{_GOOD}metadata: &a {{b: c}}\nlicense: *a\n", "license: expected text"),
        (f"{_GOOD}license: !!python/object:os.system x\n", "expected plain values, found the tag"),
        (f"{_GOOD}<<: {{license: MIT}}\n", "expected no merge key"),
        ("- name\n- description\n", "expected a mapping"),
        ("name: [brew\ndescription: x\n", "line"),
        (f"{_GOOD}metadata: {'[' * 100}{']' * 100}\n", "expected at most"),
    ],
)
def test_each_fault_is_named(front: str, said: str) -> None:
    with pytest.raises(RyeError) as caught:
        parse_metadata(_skill(front))
    assert caught.value.code == "invalid_item"
    assert said in caught.value.message
    assert str(caught.value.where).startswith("/project/.ai/skills/brew-tea/SKILL.md")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"# Tea\n", "expected front matter"),
        (b"", "expected front matter"),
        (b"\n---\nname: brew-tea\n---\n", "expected front matter"),
        (b"---\nname: brew-tea\n", "expected a line with ---"),
        (b"\xef\xbb\xbf---\nname: brew-tea\n---\n", "byte order mark"),
        (b"---\nname: brew-tea\n---\n\xff\n", "expected UTF-8"),
        (b"---\nname: brew-tea\n---\n\x00\n", "found a NUL"),
        (b"---\nname: brew-tea\r---\n", "carriage return"),
    ],
)
def test_what_is_no_skill_md(text: bytes, said: str) -> None:
    with pytest.raises(RyeError) as caught:
        parse_metadata(_raw(text))
    assert said in caught.value.message


def test_lines_may_end_as_on_windows() -> None:
    file = _raw(b"---\r\nname: brew-tea\r\ndescription: Brews tea.\r\n---\r\nDo it.\r\n")
    assert examine(file).description == "Brews tea."
    assert body_of(file) == "Do it.\n"


def test_a_directory_without_skill_md_says_so() -> None:
    file = _skill(_GOOD)
    empty = ItemFile(
        file.space, file.item_type, file.item_id, file.extension, file.path, b"", SkillFiles(b"", {})
    )
    with pytest.raises(RyeError, match=r"expected SKILL\.md"):
        parse_metadata(empty)


def test_nobody_signs_a_character_that_hides_in_skill_md() -> None:
    file = _skill(_GOOD, "Do\u202e it.\n")
    assert parse_metadata(file).name == "brew-tea"
    with pytest.raises(RyeError, match=r"found U\+202E"):
        examine(file)


@pytest.mark.parametrize(
    "front", ['license: "a\\u202eb"\n', 'metadata: {a: "\\u200b"}\n', '"metadata": {"\\u2060": b}\n']
)
def test_nobody_signs_an_escape_that_hides_in_a_value(front: str) -> None:
    file = _skill(_GOOD + front)
    assert parse_metadata(file).name == "brew-tea"
    with pytest.raises(RyeError, match="found an escape"):
        examine(file)


def test_fields_of_tools_mean_nothing_in_a_skill() -> None:
    with pytest.raises(RyeError, match="executor_id: expected one of"):
        parse_metadata(_skill(_GOOD + "executor_id: rye/core/runtimes/python_runtime\n"))
