"""`.env` files: simple `KEY=value` parsing that skips comments and `export` lines."""

from __future__ import annotations

import doctest
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lilux.primitives.errors import ConfigurationError
from lilux.runtime import _dotenv
from lilux.runtime.env_resolver import EnvResolver

NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_.-]{0,20}", fullmatch=True)
VALUES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\n\r"), max_size=60)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("KEY=value", {"KEY": "value"}),
        ("KEY=", {"KEY": ""}),
        ("KEY=a=b=c", {"KEY": "a=b=c"}),
        ("_k.e-y9=1", {"_k.e-y9": "1"}),
        # comments and export lines are skipped
        ("# KEY=value", {}),
        ("  #KEY=value", {}),
        ("export KEY=value", {}),
        ("  export\tKEY=value", {}),
        # … and what only looks like them is not
        ("exported=1", {"exported": "1"}),
        ("export=1", {"export": "1"}),
        ("KEY=value # not a comment", {"KEY": "value # not a comment"}),
        ("KEY=#fff", {"KEY": "#fff"}),
        # what is no KEY=value is skipped
        ("", {}),
        ("KEY", {}),
        ("=value", {}),
        ("1KEY=value", {}),
        ("MY KEY=value", {}),
        ("KEY: value=1", {}),
        ("ключ=value", {}),
        # blanks around name and value
        ("  KEY \t=\t value  ", {"KEY": "value"}),
        ("KEY=two  words", {"KEY": "two  words"}),
        ("KEY=\u00a0hard\u00a0", {"KEY": "\u00a0hard\u00a0"}),
        # one pair of quotes around the whole value
        ('KEY="  a b "', {"KEY": "  a b "}),
        ("KEY='x'", {"KEY": "x"}),
        ('KEY="it\'s"', {"KEY": "it's"}),
        ('KEY=""', {"KEY": ""}),
        ('KEY="', {"KEY": '"'}),
        ("KEY='a\"", {"KEY": "'a\""}),
        ('KEY="a" b', {"KEY": '"a" b'}),
        ("KEY=''x''", {"KEY": "'x'"}),
        # nothing is expanded or unescaped
        ("KEY=${HOME}$(id)`id`", {"KEY": "${HOME}$(id)`id`"}),
        (r'KEY="a\nb\"c"', {"KEY": r"a\nb\"c"}),
        # the line ends of text, and only those
        ("KEY=a\r", {"KEY": "a"}),
        ("KEY=a\x0bb\x85c\u2028d", {"KEY": "a\x0bb\x85c\u2028d"}),
    ],
)
def test_simple_parsing_of_one_line(line: str, expected: dict[str, str]) -> None:
    assert _dotenv.parse(line.encode()) == expected
    assert _dotenv.parse(f"{line}\nLAST=1\n".encode()) == {**expected, "LAST": "1"}


def test_windows_line_ends_and_a_byte_order_mark_are_no_part_of_anything() -> None:
    assert _dotenv.parse(b"\xef\xbb\xbfA=1\r\nB='2'\r\n") == {"A": "1", "B": "2"}


def test_the_last_of_several_equal_names_counts() -> None:
    assert _dotenv.parse(b"A=1\nB=2\nA=3\n") == {"A": "3", "B": "2"}


@given(st.dictionaries(NAMES, VALUES))
def test_quoted_values_come_back_exactly(variables: dict[str, str]) -> None:
    text = "".join(f'{name}="{value}"\n' for name, value in variables.items())
    assert _dotenv.parse(text.encode()) == variables


@given(st.binary(max_size=200))
def test_any_bytes_are_variables_or_an_error(data: bytes) -> None:
    try:
        found = _dotenv.parse(data)
    except ValueError:
        return
    for name, value in found.items():
        assert name
        assert not set("=\0\n ") & set(name)
        assert not set("\0\n") & set(value)


def test_a_project_without_the_file_has_no_such_variables(tmp_path: Path) -> None:
    assert _dotenv.read(tmp_path) == {}
    assert _dotenv.read(tmp_path / "gone") == {}


def test_a_directory_of_that_name_is_no_such_file(tmp_path: Path) -> None:
    (tmp_path / ".env/bin").mkdir(parents=True)
    assert _dotenv.read(tmp_path) == {}


@pytest.mark.timeout(5)
def test_a_pipe_of_that_name_is_no_such_file_and_holds_nobody_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".env")
    assert _dotenv.read(tmp_path) == {}


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"A=1\nB=\xff\xfes3cret\n", "expected UTF-8, found other bytes in line 2"),
        (b"A=1\nB=s3\0cret\n", "expected text, found a NUL in line 2"),
        ("A=1\n".encode("utf-16"), "expected UTF-8, found other bytes in line 1"),
        (bytes(range(256)), "cannot use"),
    ],
)
def test_binary_content_is_an_error_that_names_the_file_and_no_value(
    tmp_path: Path, data: bytes, words: str
) -> None:
    (tmp_path / ".env").write_bytes(data)
    with pytest.raises(ConfigurationError, match=words) as caught:
        EnvResolver(tmp_path).resolve()
    assert caught.value.field == ".env"
    assert str(tmp_path / ".env") in str(caught.value)
    assert "cret" not in str(caught.value)


def test_a_huge_file_is_an_error_and_is_not_read_to_its_end(tmp_path: Path) -> None:
    with (tmp_path / ".env").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(ConfigurationError, match="at most 1048576 bytes") as caught:
        EnvResolver(tmp_path).resolve()
    assert caught.value.field == ".env"


def test_a_file_of_just_the_limit_is_read(tmp_path: Path) -> None:
    line = b"A=" + b"x" * (_dotenv.LIMIT_BYTES - 2)
    (tmp_path / ".env").write_bytes(line)
    assert len(_dotenv.read(tmp_path)["A"]) == _dotenv.LIMIT_BYTES - 2


def test_a_file_that_cannot_be_opened_is_an_error(tmp_path: Path) -> None:
    (tmp_path / ".env").symlink_to(".env")
    with pytest.raises(ConfigurationError, match="Too many levels of symbolic links"):
        EnvResolver(tmp_path).resolve()


def test_a_file_that_is_not_asked_for_is_not_looked_at(tmp_path: Path) -> None:
    (tmp_path / ".env").write_bytes(b"\xff")
    assert EnvResolver(tmp_path).resolve(include_dotenv=False, base_env={}) == {}


def test_the_example_in_the_documentation_is_true() -> None:
    assert doctest.testmod(_dotenv).failed == 0
