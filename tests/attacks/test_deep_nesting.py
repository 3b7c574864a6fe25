"""Attack: Python that is nested so deeply, or is so much, that whoever only looks at it falls over."""

import threading
import time

import pytest

from rye_mcp.errors import RyeError
from rye_mcp.items import MAX_ITEM_BYTES
from rye_mcp.metadata import examine, parse_metadata
from tests.metadata_helpers import issues_of, item

MIB = MAX_ITEM_BYTES
REFUSED = {
    "brackets": "CONFIG = " + "[" * (MIB // 2 - 10) + "]" * (MIB // 2 - 10),
    "brackets that Python takes": "CONFIG = " + "[" * 90 + "]" * 90,
    "mappings that Python takes": "CONFIG = " + "{'a':" * 80 + "1" + "}" * 80,
    "open brackets": "CONFIG = " + "[" * (MIB - 10),
    "parentheses": "CONFIG = " + "(" * 5000 + "1" + ")" * 5000,
    "minus signs": "CONFIG = " + "-" * (MIB - 12) + "1",
    "not": "CONFIG = " + "not " * (MIB // 4 - 5) + "1",
    "a sum": "CONFIG = " + "1+" * (MIB // 2 - 10) + "1",
    "attributes": "CONFIG = a" + ".a" * (MIB // 2 - 10),
    "calls": "CONFIG = a" + "()" * (MIB // 2 - 10),
    "lambdas": "CONFIG = " + "lambda:" * (MIB // 7 - 5) + "1",
    "conditions": "CONFIG = " + "1 if 1 else " * (MIB // 12 - 5) + "1",
    "f-strings": "CONFIG = " + "f'{" * 1000 + "1" + "}'" * 1000,
    "a decimal number": "CONFIG = [" + "9" * (MIB - 12) + "]",
    "a hexadecimal number": "CONFIG = [0x" + "f" * (MIB - 14) + "]",
    "many values": "CONFIG = [" + "1," * 100_000 + "]",
    "blocks": "".join(" " * n + "if 1:\n" for n in range(1000)),
    "NUL": "CONFIG = '\x00'",
    "targets": "CONFIG = " + "a = " * 100_000 + "call()",
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
