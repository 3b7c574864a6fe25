"""A clone is so large that a search in it, or in another project, takes minutes.

An index is made of what nobody has vouched for. However much that is, of an item and of a space little
counts. An agent's first call waits until the last commit was read, and that has a limit as well.
"""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from mcp import Client

from rye_mcp.catalog import Catalog, SearchQuery
from rye_mcp.catalog._document import MAX_TEXT
from rye_mcp.catalog._space_index import GROUP
from rye_mcp.items import MAX_ITEM_BYTES, ItemType, SpaceName
from rye_mcp.mcp_server.projects import Projects
from rye_mcp.mcp_server.rye_server import RyeServer
from rye_mcp.queries import parse
from rye_mcp.verbs.git_objects import last_commits
from rye_mcp.verbs.search import SearchRequest, search
from tests.git_world import WHO, git
from tests.trust_world import World
from tests.verb_world import agent, put

WORDS = MAX_TEXT // 8


def put_text(world: World, name: str, words: int, last: str) -> None:
    said = "\n".join(
        " ".join(f"{name}{number:06}" for number in range(at, at + 8)) for at in range(0, words, 8)
    )
    text = f"---\nname: {name}\nversion: '1.0.0'\ndescription: About {name}.\n---\n{said}\n{last}\n"
    put(world, text.encode(), f"texts/{name}", ".md", item_type=ItemType.KNOWLEDGE)


def ids(catalog: Catalog, world: World, query: str) -> list[str]:
    request = SearchRequest(query, scope="knowledge", space=SpaceName.PROJECT)
    return [shown.item_id for shown in search(request, agent(world), catalog).results]


def test_of_an_item_little_is_indexed(world: World) -> None:
    put_text(world, "long", 8 * WORDS, "needle")
    put_text(world, "short", 80, "needle")
    with Catalog.open(agent(world).spaces, world.root / "cache") as catalog:
        catalog.refresh()
        assert ids(catalog, world, "needle") == ["texts/short"]
        assert ids(catalog, world, "long") == ["texts/long"]
        assert ids(catalog, world, "long000100") == ["texts/long"]


def test_of_a_space_so_much_is_indexed(world: World) -> None:
    for name in "abcdefghijklmnopqrstuvwxyz":
        put_text(world, f"text{name}", 400, "needle")
    with Catalog.open(agent(world).spaces, world.root / "cache", max_words=1000) as catalog:
        catalog.refresh()
        query = SearchQuery(parse("needle"), item_types=(ItemType.KNOWLEDGE,), limit=100)
        assert 1 <= catalog.search(query).total <= GROUP, "as many as are looked at together"
        assert ids(catalog, world, "textz") == ["texts/textz"], "by its id"


async def test_a_large_clone_keeps_no_search_in_another_project_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both come over one connection, as those of a client over standard streams do."""
    large, other = (tmp_path / name for name in ("large", "other"))
    for directory in (large, other):
        (directory / ".ai").mkdir(parents=True)
    begun, over, refresh = threading.Event(), threading.Event(), Catalog.refresh

    def slow(self: Catalog, progress: Callable[[int, int], object] | None = None) -> None:
        if any(index.space.root.is_relative_to(large) for index in self._indexes):
            begun.set()
            assert over.wait(20), "expected to be told that the other search was done"
        refresh(self, progress)

    monkeypatch.setattr(Catalog, "refresh", slow)
    async with Client(RyeServer(Projects().open)) as client, anyio.create_task_group() as group:
        asked = {"query": "bash", "limit": 1}
        group.start_soon(client.call_tool, "search", {**asked, "project_path": str(large)})
        try:
            assert await anyio.to_thread.run_sync(begun.wait, 20)
            with anyio.fail_after(10):
                await client.call_tool("search", {**asked, "project_path": str(other)})
        finally:
            over.set()


def test_a_commit_that_unpacks_to_much_is_read_in_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A few kilobytes: one file that is too large for an item, under many names, and one more."""
    for name, value in WHO.items():
        monkeypatch.setenv(name, value)
    git(tmp_path, "init", "-q")
    large, small, listing = tmp_path / "large", tmp_path / "small", tmp_path / "listing"
    large.write_bytes(bytes(MAX_ITEM_BYTES + 100))
    small.write_bytes(b"print(1)\n")
    ids = {each: git(tmp_path, "hash-object", "-w", str(each)) for each in (large, small)}

    def names_after(count: int) -> list[str]:
        names = [f"t{number:06}.py" for number in range(count)]
        lines = [f"100644 {ids[large]}\t.ai/{name}\n" for name in names]
        listing.write_text("".join([*lines, f"100644 {ids[small]}\t.ai/z.py\n"]))
        with listing.open() as given:
            subprocess.run(["git", "update-index", "--index-info"], cwd=tmp_path, stdin=given, check=True)
        git(tmp_path, "commit", "-qm", "all of it")
        [last] = last_commits(tmp_path, ".ai")
        return [name for name, _ in last.files(lambda _: True)]

    assert names_after(10) == ["z.py"]
    assert names_after((512 << 20) // MAX_ITEM_BYTES) == []
