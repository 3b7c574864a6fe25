"""Metadata of Python files: literals at the top level, and nothing else."""

import ast
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rye_mcp.errors import RyeError
from rye_mcp.metadata import PYTHON_NAMES, Placement, Resources, Warm, examine, parse_metadata
from rye_mcp.permissions import Permissions
from tests.metadata_helpers import issues_of, item, messages_of

TOOL = '''#!/usr/bin/env python3
# rye:signed:…
"""Say hello to
somebody.

At length.
"""

import sys

__version__ = "1.2.0"
__tool_type__ = "python"
__executor_id__ = "rye/core/runtimes/python_script_runtime"
__category__ = "demo"
__tags__ = ["greeting", "demo"]
CONFIG_SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "default": None, "maxLength": 20}},
    "required": ("name",),
    "additionalProperties": False,
}
CONFIG: dict = {"timeout": 5.5, "offset": -3}


def main(name):
    """Not this one."""
    return f"Hello, {name}"
'''


def test_a_tool_says_what_it_is() -> None:
    metadata = parse_metadata(item(TOOL))
    assert metadata == examine(item(TOOL))
    assert (metadata.name, metadata.version, metadata.tool_type) == ("hello", "1.2.0", "python")
    assert metadata.executor_id == "rye/core/runtimes/python_script_runtime"
    assert metadata.description == "Say hello to somebody."
    assert (metadata.category, metadata.tags) == ("demo", ("greeting", "demo"))
    assert metadata.config == {"timeout": 5.5, "offset": -3}
    assert metadata.config_schema is not None
    assert metadata.config_schema["required"] == ["name"]
    assert metadata.output_schema is None


def test_so_many_dots_may_be_in_an_import() -> None:
    source = "import a" + ".a" * 100
    assert parse_metadata(item(source)).name == "hello"
    assert "at most 100 dots in one import" in messages_of(item(source + ".a"))


def test_every_name_of_the_table_is_read() -> None:
    values = {
        "version": "1.0",
        "name": "n",
        "tool_type": "runtime",
        "executor_id": "a/b",
        "category": "c",
        "description": "d",
        "tags": ["t"],
        "author": "leo",
        "inputs": ["i"],
        "outputs": {"type": "object"},
        "permissions": {"env": ["API_KEY"]},
        "needs": {"read": ["/opt/x"]},
        "annotations": {"readOnlyHint": True},
        "examples": [{"parameters": {}}],
        "runs_given_code": True,
        "limits": {"calls": 3},
        "warm": {"prepare": "python", "keep": 3},
        "child_constraints": {"min_version": "1.0"},
        "workspace": "none",
        "resources": {"cpu": 2, "memory": "4GiB", "gpu": 1},
        "placement": {"labels": {"accel": "a100"}, "required": True},
        "idempotent": True,
        "skill": {"name": "pdf", "script": "scripts/hello.py"},
    }
    source = "".join(f"{name} = {values.get(field, {field: 1})!r}\n" for name, field in PYTHON_NAMES.items())
    metadata = parse_metadata(item(source, item_id="skills/pdf/hello"))
    assert metadata.needs == Permissions(read=frozenset(["/opt/x"]))
    assert metadata.warm == Warm("python", keep=3)
    assert metadata.resources == Resources(2, 4 << 30, 1)
    assert metadata.placement == Placement(frozenset({("accel", "a100")}), required=True)
    others = {"tags", "author", "examples", "permissions", "needs", "warm", "resources", "placement"}
    for field in set(PYTHON_NAMES.values()) - others:
        assert getattr(metadata, field) == values.get(field, {field: 1}), field
    assert metadata.tags == ("t",)
    assert metadata.permitted_env == ("API_KEY",)
    assert metadata.extra == {"author": "leo", "examples": [{"parameters": {}}]}


def test_a_description_that_is_given_wins_over_the_docstring() -> None:
    assert parse_metadata(item('"""Doc."""\n__tool_description__ = "Given."\n')).description == "Given."
    assert parse_metadata(item("x = 1\n")).description == ""
    assert parse_metadata(item('""\n')).description == ""


@pytest.mark.parametrize(
    ("docstring", "description"),
    [
        ("'One\\n    line.\\n\\n    More.'", "One line."),
        ("'\\ud800 half'", "? half"),
        ("b'bytes'", ""),
        ("f'no'", ""),
        (repr("x" * 9000), "x" * 4096),
    ],
)
def test_the_first_paragraph_of_a_docstring_describes(docstring: str, description: str) -> None:
    assert parse_metadata(item(f"{docstring}\n")).description == description


def test_a_primitive_names_no_executor_on_purpose_and_a_library_does_not_name_one() -> None:
    primitive = parse_metadata(item("__tool_type__ = 'primitive'\n__executor_id__ = None\n"))
    assert (primitive.executor_id, primitive.declares_executor, primitive.is_library) == (None, True, False)
    assert primitive.is_primitive
    library = parse_metadata(item("def helper(): pass\n"))
    assert (library.executor_id, library.declares_executor, library.is_library) == (None, False, True)
    runtime = parse_metadata(item("__tool_type__ = 'runtime'\n__executor_id__ = 'subprocess'\n"))
    assert runtime.is_runtime


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("dict(a=1)", "a call"),
        ("BASE", "a name"),
        ("os.environ", "an attribute"),
        ("f'{x}'", "an f-string"),
        ("{1, 2}", "a set"),
        ("'a' + 'b'", "a calculation"),
        ("{**BASE}", "** of something else"),
        ("{1: 2}", "expected text as a key, found 1"),
        ("{None: 2}", "expected text as a key, found None"),
        ("{'a': 1, 'a': 2}", "expected each key once"),
        ("{'a': b'bytes'}", "type bytes"),
        ("{'a': 1j}", "type complex"),
        ("{'a': ...}", "type ellipsis"),
        ("{'a': 1e999}", "without end"),
        ("{'a': -1e999}", "without end"),
        ("{'a': not True}", "an expression"),
        ("{'a': -True}", "an expression"),
        ("{'a': '\\ud800'}", "half a character"),
        ("{'\\ud800': 1}", "half a character"),
        ("{'a': 0x" + "f" * 300 + "}", "too long"),
        ("[x for x in y]", "an expression"),
    ],
)
def test_what_is_no_literal_of_json_is_an_issue_with_its_line(value: str, found: str) -> None:
    (issue,) = issues_of(item(f"\n\nCONFIG = {value}\n"))
    assert found in issue["message"]
    assert (issue["line"], issue["field"]) == (3, "config")


def test_the_line_of_an_issue_is_that_of_the_value_itself() -> None:
    (issue,) = issues_of(item("CONFIG = {\n  'a': 1,\n  'b': [\n    call(),\n  ],\n}\n"))
    assert issue["line"] == 4


def test_all_issues_are_found_at_once() -> None:
    source = "__version__ = 1.0\n__tool_type__ = 'magic'\nCONFIG = []\nCONFIG_SCHEMA = call()\n"
    assert [issue["field"] for issue in issues_of(item(source))] == [
        "version",
        "tool_type",
        "config",
        "config_schema",
    ]


@pytest.mark.parametrize(
    "source",
    [
        "CONFIG = {}\nCONFIG = {}\n",
        "CONFIG = CONFIG = {}\n",
        "CONFIG = {}\nCONFIG += {}\n",
        "CONFIG = {}\nCONFIG['a'] = 1\n",
        "CONFIG.a = 1\n",
        "a, CONFIG = 1, {}\n",
        "CONFIG = {}\ndef f(): pass\nCONFIG = {}\n",
        "CONFIG = {}\ndef f(): pass\nx = 1; CONFIG = {}\n",
        "CONFIG = {}\ndef f(): pass\n\uff23\uff2f\uff2e\uff26\uff29\uff27 = {}\n",
        "CONFIG = {}\nclass A: pass\nCONFIG: int = 5\n",
    ],
)
def test_a_name_is_assigned_once_in_one_form(source: str) -> None:
    assert "CONFIG" in messages_of(item(source))


def test_one_value_may_have_two_names() -> None:
    metadata = parse_metadata(item("CONFIG_SCHEMA = OUTPUT_SCHEMA = {'type': 'object'}\n"))
    assert metadata.config_schema == metadata.output_schema == {"type": "object"}


@pytest.mark.parametrize(
    "source",
    [
        "if True:\n    CONFIG = []\n",
        "def f():\n    CONFIG = []\n",
        "class A:\n    CONFIG = []\n",
        "x = '''\nCONFIG = []\n'''\n",
        "# CONFIG = []\n",
        "CONFIG: dict\n",
        "del CONFIG\n",
        "x = CONFIG\n",
        "CONFIG == 5\n",
        "x = {\n'CONFIG': 1}\n",
    ],
)
def test_what_is_no_assignment_at_the_top_level_is_not_metadata(source: str) -> None:
    assert parse_metadata(item(source)).config is None
    assert examine(item(source)).config is None


@pytest.mark.parametrize(
    "source",
    [
        '"""A doc\nclass in a docstring"""\nCONFIG = {}\ndef f(): pass\n',
        "x = '''\ndef f(): pass\nCONFIG = []\n'''\nCONFIG = {}\n",
        "x = (\n1\n)\n@decorator\ndef f(): pass\nCONFIG = {}\n",
        "x = 1 + \\\n2\nCONFIG = {}\nasync def f(): pass\n",
        "CONFIG = {}\nif x:\n    pass\nclass A: pass\n",
        "def f(): pass\nCONFIG = {}\n",
        "CONFIG = {}\nx = '''\nclass A:\n'''\n",
    ],
)
def test_what_looks_like_a_definition_does_not_cut_the_file_in_two(source: str) -> None:
    assert parse_metadata(item(source)).config == {}
    assert parse_metadata(item(source)) == examine(item(source))


def test_a_line_that_goes_on_behind_the_cut_is_read_as_one() -> None:
    source = "CONFIG = {}\\\n@x\ndef f(): pass\n"
    assert "a calculation" in messages_of(item(source))


def test_a_syntax_error_has_its_line() -> None:
    (issue,) = issues_of(item("x = 1\ny = (\n"))
    assert issue["line"] == 2
    (issue,) = issues_of(item("__version__ = '1.0'\n\ndef f(:\n    pass\n"), thorough=True)
    assert issue["line"] == 3


def test_behind_the_first_definition_only_signing_looks_for_syntax_errors() -> None:
    source = "__version__ = '1.0'\n\ndef f():\n    return (\n"
    assert parse_metadata(item(source)).version == "1.0"
    assert "expected Python" in messages_of(item(source), thorough=True)


@pytest.mark.parametrize(
    "cookie", ["# -*- coding: utf-7 -*-", "#!/usr/bin/python\n# vim: set fileencoding=latin-1 :"]
)
def test_another_encoding_is_refused(cookie: str) -> None:
    (issue,) = issues_of(item(f"{cookie}\n__version__ = '1.0'\n"))
    assert "expected UTF-8" in issue["message"]
    assert issue["line"] == cookie.count("\n") + 1


@pytest.mark.parametrize("cookie", ["# coding: utf-8", "# -*- coding: UTF-8 -*-", "# encoding=utf8"])
def test_utf_8_may_be_declared(cookie: str) -> None:
    assert parse_metadata(item(f"{cookie}\n__version__ = '1.0'\n")).version == "1.0"


def test_looking_at_code_says_nothing_of_its_own() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert parse_metadata(item("CONFIG = {'pattern': '\\d'}\n")).config == {"pattern": "\\d"}


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda children: (
        st.lists(children, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), children, max_size=4)
    ),
    max_leaves=20,
)


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), JSON, max_size=4))
def test_any_json_is_read_as_it_is(value: dict[str, object]) -> None:
    metadata = parse_metadata(item(f"OUTPUT_SCHEMA = {value!r}\n"))
    assert metadata.output_schema == value
    assert metadata.output_schema == ast.literal_eval(repr(value))


LINES = [
    "__version__ = '1.0'\n",
    "CONFIG = {'a': 1}\n",
    "def f():\n    pass\n",
    "class A:\n    CONFIG = 1\n",
    "async def g(): pass\n",
    "'''\n",
    "x = (\n",
    ")\n",
    "\\\n",
    "@f\n",
    "# CONFIG\n",
    "x = 'CONFIG'\n",
    "if x:\n    y = 1\n",
    "else:\n    y = 2\n",
    "x = 1; CONFIG = {}\n",
    "\n",
]


@given(st.lists(st.sampled_from(LINES), max_size=8).map("".join))
def test_reading_the_beginning_gives_what_reading_everything_does(source: str) -> None:
    try:
        ast.parse(source)
    except SyntaxError:
        return
    answers = []
    for read in (parse_metadata, examine):
        try:
            answers.append(repr(read(item(source))))
        except RyeError as exc:
            answers.append(exc.message)
    assert answers[0] == answers[1]


BLOCK = "# /// rye\n# version: 1.2.0\n# executor_id: demo/run\n# ///\n"


@pytest.mark.parametrize("before", ["", "#!/usr/bin/env python3\n", "\n# a comment\n\n"])
def test_a_block_of_comments_before_all_code_is_all_of_the_metadata(before: str) -> None:
    code = '"""Text."""\n__version__ = find()\nCONFIG = {1, 2}\n'
    found = examine(item(before + BLOCK + code))
    assert (found.version, found.executor_id, found.config) == ("1.2.0", "demo/run", None)


@pytest.mark.parametrize(
    "text",
    [f'"""\n{BLOCK}"""\n', f"import os\n{BLOCK}", f"x = '''\n{BLOCK}'''\n", f"x = 1; \\\n{BLOCK}"],
    ids=["in a docstring", "behind code", "in a text", "behind a joined line"],
)
def test_a_block_anywhere_else_does_not_count(text: str) -> None:
    assert parse_metadata(item(text)).executor_id is None


def test_code_below_a_block_is_checked_when_it_is_signed() -> None:
    with pytest.raises(RyeError) as caught:
        examine(item(f"{BLOCK}x = (\n"))
    assert [issue["line"] for issue in caught.value.details["issues"]] == [5]
