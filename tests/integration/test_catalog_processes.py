"""Indexes that several processes share, and those of processes that are killed while they write."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rye_mcp.catalog import SearchQuery
from rye_mcp.queries import parse
from tests.catalog_world import Shelf, tool
from tests.file_helpers import run_at_once

KILLS = 40
WRITES_A_LIFE = 5  # 200 writes in all
ITEMS = 25

IMPORTS = """
import sys
from pathlib import Path
from rye_mcp.catalog import SearchQuery
from rye_mcp.queries import parse
from tests.catalog_world import Shelf, tool
from tests.space_helpers import Ground
"""

WRITER = f"""
{IMPORTS}
shelf, first = Shelf(Ground(Path(sys.argv[1]))), int(sys.argv[2])
with shelf.open() as catalog:
    for number in range(first, first + int(sys.argv[3])):
        text = tool("changed", f"version{{number}} shared", body=f"body{{number}} " * 300)
        shelf.exchange(f"many/t{{number % {ITEMS}:02}}", text)
        print(number, flush=True)
        catalog.refresh()
"""

READ = """
with shelf.open() as catalog:
    for _ in range(30):
        catalog.refresh()
        page = catalog.search(SearchQuery(parse("shared"), limit=100))
        assert page.total == len(page.hits) == len({hit.item_id for hit in page.hits}) == 25, page
        assert catalog.notices == ()
"""

WRITE = """
with shelf.open() as catalog:
    for number in range(30):
        who = sys.argv[2]
        shelf.exchange(f"many/t{number % 25:02}", tool("changed", f"shared by{who} in{number}"), by=who)
        catalog.refresh()
        assert catalog.notices == ()
"""


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    shelf = Shelf.in_directory(tmp_path)
    for number in range(ITEMS):
        shelf.put(f"many/t{number:02}", tool(f"t{number:02}", "shared"))
    return shelf


def require_right(shelf: Shelf) -> None:
    """What a new process finds is what the files say, word by word, and is counted rightly too."""
    with shelf.open() as catalog:
        catalog.refresh()
        assert catalog.notices == ()
        for path in sorted(shelf.ground.space("project").rglob("*.py")):
            words = [word for word in path.read_text().split() if word.startswith(("version", "body"))]
            for word in {each.strip("'\"") for each in words}:
                hits = catalog.search(SearchQuery(parse(word))).hits
                assert [hit.item_id for hit in hits] == [f"many/{path.stem}"], word
        page = catalog.search(SearchQuery(parse("shared"), limit=100))
        assert page.total == ITEMS
        scores = [(hit.item_id, hit.score) for hit in page.hits]
    with shelf.open() as fresh:
        for index in fresh._indexes:
            counted = index.ask(
                lambda engine: engine.database.execute("SELECT documents FROM totals").fetchone()
            )
            rows = index.ask(
                lambda engine: engine.database.execute(
                    "SELECT count(*) FROM items WHERE is_listed"
                ).fetchone()
            )
            assert counted == rows
    with shelf.open_anew() as anew:
        anew.refresh()
        page = anew.search(SearchQuery(parse("shared"), limit=100))
        assert [(hit.item_id, hit.score) for hit in page.hits] == scores


@pytest.mark.thorough
@pytest.mark.timeout(180)
def test_killing_a_writer_at_random_leaves_no_wrong_answer(shelf: Shelf) -> None:
    chance = random.Random(4)  # noqa: S311 - the same every time
    for life in range(KILLS):
        arguments = [str(shelf.ground.root), str(life * WRITES_A_LIFE), str(WRITES_A_LIFE)]
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, *arguments], stdout=subprocess.PIPE, text=True
        )
        assert writer.stdout is not None
        for _ in range(chance.randrange(1, WRITES_A_LIFE + 1)):
            assert writer.stdout.readline()
        try:
            writer.wait(chance.random() * 0.03)
        except subprocess.TimeoutExpired:
            writer.send_signal(signal.SIGKILL)
        writer.communicate()
        if life % 4 == 3:
            require_right(shelf)
    require_right(shelf)


@pytest.mark.thorough
@pytest.mark.timeout(180)
def test_two_writers_and_four_readers_share_an_index(shelf: Shelf) -> None:
    preparation = "; ".join(IMPORTS.strip().split("\n"))
    parts = {"w": WRITE, "r": READ}
    part = f"shelf = Shelf(Ground(Path(sys.argv[1])))\nexec({parts!r}[sys.argv[2][0]])\nprint('ok')"
    script = f"{preparation}\n{part}"
    who = ["w1", "w2", "r1", "r2", "r3", "r4"]
    root = str(shelf.ground.root)
    assert run_at_once(script, [(root, each) for each in who]) == ["ok\n"] * len(who)
    assert len(list(shelf.cache.glob("*.sqlite"))) == 3
    require_right(shelf)
