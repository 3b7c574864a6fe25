"""Metadata inside of comments, for every language that has some, and in front of Markdown."""

import pytest

from rye_mcp.items import EXTENSIONS, ItemType, comment_style
from rye_mcp.metadata import body_of, parse_metadata
from tests.metadata_helpers import issues_of, item

LANGUAGES = [each for each in EXTENSIONS[ItemType.TOOL] if each not in {".py", ".yaml", ".yml"}]


def block(extension: str, *lines: str) -> str:
    style = comment_style(extension)
    assert style is not None
    comment = style.opening.decode()
    return "".join(f"{comment}{line}".rstrip() + "\n" for line in ("/// rye", *lines, "///"))


@pytest.mark.parametrize("extension", LANGUAGES)
def test_a_block_of_comments_holds_yaml(extension: str) -> None:
    text = "#!/usr/bin/env something\n\n" + block(
        extension, "version: 1.2.0", "", "executor_id: rye/core/runtimes/x", "config:", "  a: [1]"
    )
    metadata = parse_metadata(item(text + "\nrest of it\n", extension))
    assert (metadata.version, metadata.executor_id) == ("1.2.0", "rye/core/runtimes/x")
    assert metadata.config == {"a": [1]}


@pytest.mark.parametrize(
    "text",
    [
        "echo hello\n",
        "",
        "# /// script\n# version: 1\n# ///\n",
        "  # /// rye\n# version: 1\n# ///\n",
        "echo # /// rye\n# version: 1\n# ///\n",
        "# /// ryeland\n# version: 1\n# ///\n",
    ],
)
def test_what_has_no_block_is_a_library(text: str) -> None:
    assert parse_metadata(item(text, ".sh")).is_library


def test_comments_of_another_language_do_not_count() -> None:
    assert parse_metadata(item(block(".sh", "version: 1.2.0"), ".js")).version == "0.0.0"
    assert parse_metadata(item(block(".js", "version: 1.2.0"), ".js")).version == "1.2.0"


@pytest.mark.parametrize(
    ("text", "line", "found"),
    [
        ("# /// rye\n# version: 1.0\n", 3, "at the end of the block"),
        ("# /// rye\n# version: 1.0\necho\n# ///\n", 3, "at the end of the block"),
        ("# /// rye\n# a: 1\n# ///\n# /// rye\n# a: 1\n# ///\n", 4, "found another one"),
        ("#!/bin/sh\n\n# /// rye\n# a: [\n# ///\n", 5, "expected YAML"),
        ("#!/bin/sh\n\n# /// rye\n# version: 1\n# ///\n", 4, "version"),
        ("# /// rye\n#version: 1\n# ///\n", 2, "at the end of the block"),
    ],
)
def test_a_block_that_is_wrong_is_an_issue_with_its_line_in_the_file(
    text: str, line: int, found: str
) -> None:
    (issue,) = issues_of(item(text, ".sh"))
    assert found in issue["message"]
    assert issue["line"] == line


BODY = "# Greet\n\nHello.\n"
FRONT = "---\nname: greet\ndescription: Greets.\nversion: 2.0.0\ninputs:\n  type: object\n---\n" + BODY


@pytest.mark.parametrize("item_type", [ItemType.DIRECTIVE, ItemType.KNOWLEDGE])
@pytest.mark.parametrize("signature", ["", "<!-- rye:signed:whatever -->\n"])
def test_markdown_has_front_matter_and_a_body(item_type: ItemType, signature: str) -> None:
    file = item(signature + FRONT, ".md", item_type)
    metadata = parse_metadata(file)
    assert (metadata.name, metadata.description, metadata.version) == ("greet", "Greets.", "2.0.0")
    assert metadata.inputs == {"type": "object"}
    assert body_of(file) == BODY


@pytest.mark.parametrize("text", ["# Greet\n", "", "\n---\nname: x\n---\n", "----\nx\n----\n"])
def test_markdown_without_front_matter_is_all_body(text: str) -> None:
    file = item(text, ".md", ItemType.KNOWLEDGE)
    assert parse_metadata(file).name == "hello"
    assert body_of(file) == text
    assert body_of(item("<!-- rye:signed:x -->\n" + text, ".md", ItemType.KNOWLEDGE)) == text


def test_front_matter_without_an_end_is_an_issue() -> None:
    (issue,) = issues_of(item("<!-- rye:signed:x -->\n---\nname: x\n", ".md", ItemType.DIRECTIVE))
    assert issue["line"] == 2


def test_a_mistake_in_front_matter_has_its_line_in_the_file() -> None:
    (issue,) = issues_of(
        item("<!-- rye:signed:x -->\n---\nname: x\nversion: 1\n---\n", ".md", ItemType.DIRECTIVE)
    )
    assert (issue["line"], issue["field"]) == (4, "version")


def test_a_directive_has_nothing_of_a_tool() -> None:
    text = "---\ntool_type: runtime\nexecutor_id: a/b\n---\n"
    fields = {issue["field"] for issue in issues_of(item(text, ".md", ItemType.DIRECTIVE))}
    assert fields == {"tool_type", "executor_id"}
