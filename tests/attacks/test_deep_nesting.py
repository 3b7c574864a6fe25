"""Attack: Python that is nested so deeply, or is so much, that whoever only looks at it falls over."""

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rye_mcp.errors import RyeError
from rye_mcp.items import MAX_ITEM_BYTES, ItemFile
from rye_mcp.metadata import ItemMetadata, examine, parse_metadata
from tests.metadata_helpers import issues_of, item
from tests.space_helpers import Ground, refused

MIB = MAX_ITEM_BYTES
PARSED = 64 << 10
"""Little enough to get as far as the parser."""

REFUSED = {
    "brackets": "CONFIG = " + "[" * (PARSED // 2 - 10) + "]" * (PARSED // 2 - 10),
    "brackets that Python takes": "CONFIG = " + "[" * 90 + "]" * 90,
    "mappings that Python takes": "CONFIG = " + "{'a':" * 80 + "1" + "}" * 80,
    "open brackets": "CONFIG = " + "[" * (PARSED - 10),
    "parentheses": "CONFIG = " + "(" * 5000 + "1" + ")" * 5000,
    "minus signs": "CONFIG = " + "-" * (PARSED - 12) + "1",
    "not": "CONFIG = " + "not " * (PARSED // 4 - 5) + "1",
    "a sum": "CONFIG = " + "1+" * (PARSED // 2 - 10) + "1",
    "attributes": "CONFIG = a" + ".a" * (PARSED // 2 - 10),
    "calls": "CONFIG = a" + "()" * (PARSED // 2 - 10),
    "lambdas": "CONFIG = " + "lambda:" * (PARSED // 7 - 5) + "1",
    "conditions": "CONFIG = " + "1 if 1 else " * (PARSED // 12 - 5) + "1",
    "f-strings": "CONFIG = " + "f'{" * 1000 + "1" + "}'" * 1000,
    "a decimal number": "CONFIG = [" + "9" * (PARSED - 12) + "]",
    "a hexadecimal number": "CONFIG = [0x" + "f" * (PARSED - 14) + "]",
    "many values": "CONFIG = [" + "1," * 30_000 + "]",
    "blocks": "".join(" " * n + "if 1:\n" for n in range(1000)),
    "NUL": "CONFIG = '\x00'",
    "targets": "CONFIG = " + "a = " * 30_000 + "call()",
}


@pytest.mark.parametrize("read", [parse_metadata, examine])
@pytest.mark.parametrize("source", REFUSED.values(), ids=REFUSED)
def test_it_is_refused_in_time_on_a_quarter_of_the_usual_stack(source: str, read: object) -> None:
    found: list[object] = []

    def run() -> None:
        begin = time.thread_time()
        found.append(issues_of(item(source), thorough=read is examine))
        found.append(time.thread_time() - begin)

    before = threading.stack_size(2 << 20)
    try:
        thread = threading.Thread(target=run)
        thread.start()
    finally:
        threading.stack_size(before)
    thread.join()
    issues, seconds = found
    assert len(str(issues)) < 20_000
    assert isinstance(seconds, float)
    assert seconds < 10


@pytest.mark.parametrize("source", ["x = " + "-" * 100_000 + "1\n", "x = " + "(" * 1000 + ")" * 1000 + "\n"])
def test_behind_the_first_definition_it_is_not_even_looked_at(source: str) -> None:
    assert parse_metadata(item("__version__ = '1.0'\ndef f(): pass\n" + source)).version == "1.0"
    with pytest.raises(RyeError) as caught:
        examine(item("__version__ = '1.0'\ndef f(): pass\n" + source))
    assert caught.value.code == "invalid_item"


def test_a_large_file_is_read_by_its_beginning() -> None:
    source = "__version__ = '1.0'\n" + "def f(a, b):\n    return {'a': a, 'b': [b, 1, 2]}\n\n" * 15_000
    begin = time.thread_time()
    assert parse_metadata(item(source)).version == "1.0"
    assert time.thread_time() - begin < 0.5


@pytest.mark.parametrize("extension", [".sh", ".js", ".lua"])
def test_a_file_of_nothing_but_comments_is_read_in_time(extension: str) -> None:
    opening = {".sh": "# ", ".js": "// ", ".lua": "-- "}[extension]
    text = f"{opening}/// rye\n" * (MIB // (len(opening) + 8) - 1)
    begin = time.thread_time()
    assert issues_of(item(text, extension))
    assert time.thread_time() - begin < 2


Read = Callable[[ItemFile], ItemMetadata]

MAX_SECONDS = 1.0
"""Several times of what it takes, and a small part of what it took."""

KIB = 1024
SLOW = {
    "fields of one f-string": (
        'x = f"' + "{a}" * (128 * KIB // 3) + '"\n',
        "bytes of Python with f-strings",
        1,
    ),
    "1 MiB of them": (
        'x = f"' + "{a}" * (MAX_ITEM_BYTES // 3 - 10) + '"\n',
        "bytes of Python that is read",
        1,
    ),
    "fields far apart": ('\nx = f"""' + ("{a}" + "b" * 50) * 6500 + '"""\n', "with f-strings", 2),
    "fields in lines": ('x = fR"""' + "{a}\n" * 20_000 + '"""\n', "with f-strings", 1),
    "statements in one line": ("x;" * 150_000, "75000 words and signs", 1),
    "1 MiB of statements": ("x;" * (MAX_ITEM_BYTES // 2), "393216 bytes", 1),
    "statements in lines": ("x\n" * 100_000, "75000 words and signs", 37_500),
    "slices": ("x[" + "::," * 100_000 + "]", "75000 words and signs", 1),
    "empty strings": ("''\n" * 100_000, "75000 words and signs", 37_500),
    "blanks": ("' '\n" * 90_000, "75000 words and signs", 37_500),
    "a dotted import": ("\nimport a" + ".a" * 60_000, "100 dots in one import", 2),
    "a dotted import behind something": ("x; from a\\\n" + ".\\\na" * 30_000 + " import b", "100 dots", 1),
    "marks on a letter": ("a" + "\u0301" * 60_000 + "\u0316" * 60_000 + " = 1\n", "64 combining marks", 1),
}


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return Ground.in_directory(tmp_path)


@pytest.mark.parametrize("read", [parse_metadata, examine])
@pytest.mark.parametrize(("source", "limit", "line"), SLOW.values(), ids=SLOW)
def test_it_is_refused_before_it_is_parsed(
    ground: Ground, read: Read, source: str, limit: str, line: int
) -> None:
    ground.write("project", "tools/demo/hello.py", source.encode())
    file = ground.spaces.find("demo/hello").item
    begin = time.thread_time()
    with refused("invalid_item", ground) as caught:
        ground.canary.write_text(read(file).version)
    assert time.thread_time() - begin < MAX_SECONDS
    (issue,) = caught.value.details["issues"]
    assert limit in issue["message"]
    assert issue["line"] == pytest.approx(line, abs=1 if line > 2 else 0)


def test_marks_behind_the_first_definition_are_not_sorted() -> None:
    source = "__version__ = '1.0'\ndef f(): pass\n# a" + "\u0301" * 60_000 + "\u0316" * 60_000
    begin = time.thread_time()
    assert parse_metadata(item(source)).version == "1.0"
    assert time.thread_time() - begin < MAX_SECONDS


METHOD = '''    def get_{0}(self, item_id: str, *, timeout: float = 5.0) -> dict:
        """Get item {0} of the API."""
        return self._request("GET", f"/items/{{item_id}}/{0}", timeout=timeout)

'''
REAL = {
    "generated methods": "class Client:\n" + "".join(map(METHOD.format, range(1400))),
    "generated data": "DATA = {\n"
    + "".join(f'    "key_{n}": {{"name": "n{n}", "value": {n}, "ok": True}},\n' for n in range(5200))
    + "}\n",
    "text": '"""' + "Some words of an explanation, from here to there.\n" * 6000 + '"""\n',
    "rulers": "# " + "─" * 100 + "\nfrom a.b.c import d\n",
}


@pytest.mark.parametrize("source", REAL.values(), ids=REAL)
def test_what_people_and_their_generators_write_is_read(source: str) -> None:
    assert examine(item(f"__version__ = '1.0'\n{source}")).version == "1.0"
