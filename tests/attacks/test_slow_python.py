"""Attack: Python, unsigned, that keeps whoever only looks at it busy for minutes, and all others waiting."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rye_mcp.items import MAX_ITEM_BYTES, ItemFile
from rye_mcp.metadata import ItemMetadata, examine, parse_metadata
from tests.metadata_helpers import item
from tests.space_helpers import Ground, refused

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
