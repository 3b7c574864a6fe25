"""The programs of `examples/programs`, called by a client: a few lines come back of all they have read."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.document_pages import GIT_IDENTITY, ROOT, blocks_of
from tests.inside_world import execute
from tests.mcp_world import Workshop, workshop

__all__ = ["workshop"]

EXAMPLE = ROOT / "examples/programs"
HISTORY = {"1.0: the first one": "till", "1.1: round sums": "round", "1.2: notes": "notes"}


@pytest.fixture
def site() -> Iterator[str]:
    """The address of the page."""
    with subprocess.Popen([sys.executable, EXAMPLE / "site.py"], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield server.stdout.readline().strip()
        server.terminate()


@pytest.fixture
def shop(workshop: Workshop) -> Workshop:
    """The project of the page, with its history and its tools."""
    for block in blocks_of(EXAMPLE / "README.md"):
        if block.path is not None:
            path = workshop.project / block.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text)
    for item_id in ("pages/releases", "programs/review", "programs/rename", "programs/report"):
        workshop.sign(item_id)
    _commit(workshop.project)
    return workshop


def _commit(project: Path) -> None:
    def git(*arguments: str) -> None:
        subprocess.run(["git", *arguments], cwd=project, check=True, env=None, capture_output=True)

    git("init", "-q", ".")
    for name, value in {"user.name": "alice", "user.email": "alice@example.org"}.items():
        git("config", name, value)
    (project / "src").mkdir()
    for subject, text in HISTORY.items():
        (project / "src/till.py").write_text(f"def {text}():\n    return '{text}'\n")
        git("add", "src")
        git("commit", "-qm", subject)
    (project / "data").mkdir()
    for number in range(20):
        sale = {"shop": f"shop-{number % 3}", "sold": number}
        (project / f"data/{number}.json").write_text(json.dumps(sale))


@pytest.mark.thorough
async def test_a_review_joins_the_log_with_files_and_a_page(shop: Workshop, site: str) -> None:
    async with shop.served("auto", variables={"SITE_URL": site, **GIT_IDENTITY}) as client:
        answer = await execute(client, "programs/review")
    assert answer["data"] == [{"commit": "1.2: notes", "lines": {"src/till.py": 2}}]


async def test_a_word_is_renamed_only_when_it_is_asked_for(shop: Workshop) -> None:
    till = shop.project / "src/till.py"
    async with shop.served("auto") as client:
        asked = {"old": "notes", "new": "words", "path": "src"}
        looked = (await execute(client, "programs/rename", **asked))["data"]
        assert looked == {"changed": False, "replacements": {"src/till.py": 2}}
        assert "notes" in till.read_text()
        done = (await execute(client, "programs/rename", **asked, dry_run=False))["data"]
    assert done == {"changed": True, "replacements": {"src/till.py": 2}}
    assert till.read_text() == "def words():\n    return 'words'\n"


@pytest.mark.thorough
async def test_a_report_adds_up_what_stands_in_many_files(shop: Workshop) -> None:
    async with shop.served("auto") as client:
        answer = await execute(client, "programs/report")
    assert answer["data"] == {"files": 20, "sold": {"shop-0": 63, "shop-1": 70, "shop-2": 57}}
