"""Attack: a file that says one thing to who reviews it, and another thing to the program that reads it."""

import pytest

from rye_mcp.items import ItemType
from rye_mcp.metadata import parse_metadata
from tests.metadata_helpers import issues_of, item

FULL_WIDTH = "".join(chr(ord(letter) + 0xFEE0) for letter in "CONFIG")


@pytest.mark.parametrize(
    ("extension", "text"),
    [
        (".py", "__executor_id__ = 'safe/one'\n__executor_id__ = 'evil/one'\n"),
        (".py", "__executor_id__ = 'safe/one'\n\n\ndef f(): pass\n\n\n__executor_id__ = 'evil/one'\n"),
        (".py", f"CONFIG = {{'a': 1}}\ndef f(): pass\n{FULL_WIDTH} = {{'a': 2}}\n"),
        (".py", "CONFIG = {'a': 1, 'a': 2}\n"),
        (".py", "CONFIG = {'a': 1}\nCONFIG['a'] = 2\n"),
        (".py", "CONFIG = {'a': 1}\nCONFIG |= {'a': 2}\n"),
        (".py", "# coding: utf-7\nCONFIG = {'a': 1}\n"),
        (".py", "#!/usr/bin/python\n#-*-coding:latin-1-*-\nCONFIG = {'a': 1}\n"),
        (".yaml", "executor_id: safe/one\nexecutor_id: evil/one\n"),
        (".yaml", "executor_id: safe/one\n'executor_id': evil/one\n"),
        (".yaml", 'executor_id: safe/one\n"executor\\u005fid": evil/one\n'),
        (".yaml", "executor_id: safe/one\n? executor_id\n: evil/one\n"),
        (".yaml", "executor_id: safe/one\n---\nexecutor_id: evil/one\n"),
        (".yaml", "config: {a: 1}\nb: &b {a: 2}\nother:\n  <<: *b\n"),
        (".yaml", "executor_id: safe/one\r# executor_id: x\r"),
        (".sh", "# /// rye\n# executor_id: safe/one\n# ///\n# /// rye\n# executor_id: evil/one\n# ///\n"),
        (".sh", "# /// rye\n# executor_id: safe/one\n# executor_id: evil/one\n# ///\n"),
        (".sh", "# /// rye\n# executor_id: safe/one\n"),
    ],
)
def test_what_can_be_read_in_two_ways_is_refused(extension: str, text: str) -> None:
    assert issues_of(item(text, extension))


@pytest.mark.parametrize(
    ("extension", "text"),
    [
        (".py", "x = '''\n__executor_id__ = 'evil/one'\n'''\n"),
        (".py", "x = '''\ndef f():\n'''; y = '''\n__executor_id__ = 'evil/one'\n'''\n"),
        (".py", "if False:\n    __executor_id__ = 'evil/one'\n"),
        (".py", "#\u2028__executor_id__ = 'evil/one'\n"),
        (".py", "#\x0c__executor_id__ = 'evil/one'\n"),
        (".yaml", "config:\n  executor_id: evil/one\n"),
        (".yaml", "notes: |\n  a\n  executor_id: evil/one\n"),
        (".yaml", "# a\u2028# executor_id: evil/one\n"),
        (".sh", "echo '\n  # /// rye\n  # executor_id: evil/one\n  # ///\n'\n"),
        (".sh", "#\u2028# /// rye\n# executor_id: evil/one\n# ///\n"),
        (".js", "# /// rye\n# executor_id: evil/one\n# ///\n"),
    ],
)
def test_text_that_only_looks_like_metadata_does_not_count(extension: str, text: str) -> None:
    metadata = parse_metadata(item(text, extension))
    assert metadata.executor_id is None
    assert metadata.is_library


def test_front_matter_is_only_at_the_top() -> None:
    text = "# Title\n\n---\nname: evil\n---\n"
    assert parse_metadata(item(text, ".md", ItemType.DIRECTIVE)).name == "hello"
    assert issues_of(item("---\nname: one\nname: two\n---\n", ".md", ItemType.DIRECTIVE))
