"""Attack: a handle that was made up, belongs to somebody else, or leads elsewhere."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from rye_mcp.errors import RyeError
from rye_mcp.runs.results import KeptResults, owner_of, result_handle
from tests.lock_world import files_below
from tests.mcp_world import *  # noqa: F403
from tests.mcp_world import Workshop, facts

SECRET = b"what only one project has made"
DIGEST = hashlib.sha256(SECRET).hexdigest()
OWNER = owner_of(Path("/srv/project"))

MALFORMED = [
    "rye://result/",
    f"rye://result/{DIGEST.upper()}",
    f"rye://result/{DIGEST}/",
    f"rye://result/{DIGEST} ",
    f"rye://result/../{OWNER}/{DIGEST}",
    "rye://result/../../runs.sqlite3",
    f"rye://result/{DIGEST[:-1]}",
    "rye://result/" + "x" * 3_000_000,
    "rye://result/\N{FULLWIDTH DIGIT ONE}" + DIGEST[1:],
]


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state directory with one result, and a secret beside it."""
    state = tmp_path / "state"
    results = KeptResults(state, OWNER)
    results.keep(SECRET, name="data")
    results.close()
    (tmp_path / "secret").write_text("a private key")
    return state


def stored(state: Path) -> Path:
    return state / "results" / OWNER / DIGEST


def refusal_of(work: Callable[[], object]) -> RyeError:
    with pytest.raises(RyeError) as refused:
        work()
    return refused.value


def opened(results: KeptResults, handle: str) -> None:
    with results.opened(handle):
        pass


# --- whose it is ----------------------------------------------------------------


@pytest.mark.anyio
async def test_an_agent_of_another_project_opens_nothing(workshop: Workshop, tmp_path: Path) -> None:
    """Not though it knows the content, and so the handle, or the id of the run that made it."""
    code = 'print("x" * 3_000_000)'
    workshop.tool("demo/long", code)
    workshop.tool("demo/short", 'print(json.dumps(params["text"]))')
    other = tmp_path / "other"
    other.mkdir()
    workshop.person.begin(other)
    elsewhere = Workshop(workshop.person, other)
    elsewhere.tool("demo/short", 'print(json.dumps(params["text"]))')
    async with workshop.served("auto") as client:
        call = {"item_id": "demo/short", "parameters": {"text": SECRET.decode()}, "as_handle": True}
        handle = facts(await client.call_tool("execute", call))["kept"][0]["handle"]
        run = facts(await client.call_tool("execute", {"item_id": "demo/long"}))["output"]
        for each in (handle, run):
            assert facts(await client.call_tool("load", {"run_id": each}))["status"] == "success"
    assert handle == result_handle(DIGEST)
    async with elsewhere.served("auto") as client:
        for each in (handle, run):
            assert facts(await client.call_tool("load", {"run_id": each}))["code"] == "output_not_found"
        passed_on = {"item_id": "demo/short", "parameters": {"text": handle}}
        assert facts(await client.call_tool("execute", passed_on))["code"] == "output_not_found"
        mine = facts(
            await client.call_tool("execute", {**passed_on, "parameters": {"text": SECRET.decode()}})
        )
        assert mine["data"] == SECRET.decode()


def test_a_result_of_another_owner_and_one_that_is_gone_look_the_same(state: Path) -> None:
    theirs = refusal_of(lambda: opened(KeptResults(state, owner_of(None)), result_handle(DIGEST)))
    stored(state).unlink()
    gone = refusal_of(lambda: opened(KeptResults(state, OWNER), result_handle(DIGEST)))
    assert theirs.as_dict() == gone.as_dict()
    assert gone.code == "output_not_found"


def test_whoever_sees_the_results_of_all_keeps_none(state: Path) -> None:
    """They would be in no project's share, where nothing removes them."""
    everybody, there = KeptResults(state, None), files_below(state)
    assert everybody.read_whole(result_handle(DIGEST), limit=1000) == SECRET
    with pytest.raises(ValueError, match="results of one project"):
        everybody.keep(b"more", name="data")
    with stored(state).open("rb") as source, pytest.raises(ValueError, match="results of one project"):
        everybody.keep_file(source.fileno(), name="data", limit=1000)
    assert files_below(state) == there
    stored(state).unlink()
    assert refusal_of(lambda: opened(everybody, result_handle(DIGEST))).code == "output_not_found"


# --- what it is -----------------------------------------------------------------


@pytest.mark.parametrize("handle", MALFORMED, ids=lambda handle: ascii(handle)[:40])
def test_what_is_no_handle_is_refused_and_no_path_is_made_of_it(state: Path, handle: str) -> None:
    refused = refusal_of(lambda: opened(KeptResults(state, OWNER), handle))
    assert refused.code == "malformed_handle"
    assert len(refused.message) < 300


@pytest.mark.anyio
async def test_it_is_refused_wherever_a_client_may_write_it(workshop: Workshop) -> None:
    workshop.tool("demo/echo", "print(json.dumps(params))")
    handle = "rye://result/../../secret"
    async with workshop.served("auto") as client:
        call: dict[str, Any] = {"item_id": "demo/echo", "parameters": {"a": handle}}
        assert facts(await client.call_tool("execute", call))["code"] == "malformed_handle"
        assert facts(await client.call_tool("load", {"run_id": handle}))["code"] == "malformed_handle"


def test_what_is_taken_whole_is_what_its_name_says(state: Path) -> None:
    stored(state).write_bytes(b"something else")
    refused = refusal_of(lambda: KeptResults(state, OWNER).read_whole(result_handle(DIGEST), limit=1000))
    assert refused.code == "output_not_found"


def a_link(state: Path) -> None:
    stored(state).unlink()
    stored(state).symlink_to(state.parent / "secret")


def a_pipe(state: Path) -> None:
    stored(state).unlink()
    os.mkfifo(stored(state))


def a_link_for_the_owner(state: Path) -> None:
    moved = state / "moved"
    stored(state).parent.rename(moved)
    (state / "results" / OWNER).symlink_to(moved)


def a_link_for_all(state: Path) -> None:
    (state / "results").rename(state / "moved")
    (state / "results").symlink_to(state / "moved")


@pytest.mark.parametrize(
    "plant", [a_link, a_pipe, a_link_for_the_owner, a_link_for_all], ids=lambda plant: plant.__name__
)
def test_nothing_is_read_through_a_link_or_a_pipe(state: Path, plant: Callable[[Path], None]) -> None:
    plant(state)
    refused = refusal_of(lambda: opened(KeptResults(state, OWNER), result_handle(DIGEST)))
    assert refused.code == "unsafe_path"


# --- where it is ----------------------------------------------------------------


def test_only_its_user_can_look(state: Path) -> None:
    for path in (stored(state), *stored(state).parents[:3]):
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == (0o600 if path.is_file() else 0o700), path


def test_nothing_is_kept_or_read_where_others_may_look(state: Path) -> None:
    results = KeptResults(state, OWNER)
    for place in (state, state / "results", state / "results" / OWNER):
        place.chmod(0o755)
        refused = [
            refusal_of(lambda: results.keep(b"more", name="data")),
            refusal_of(lambda: opened(results, result_handle(DIGEST))),
        ]
        assert [each.code for each in refused] == ["unsafe_permissions"] * 2
        place.chmod(0o700)
    assert [path.name for path in stored(state).parent.iterdir()] == [DIGEST]


def test_to_sweep_removes_a_link_and_not_what_it_leads_to(state: Path) -> None:
    link = stored(state).parent / ("0" * 64)
    link.symlink_to(state.parent / "secret")
    KeptResults(state, OWNER, max_age=timedelta(0)).sweep()
    assert not link.is_symlink()
    assert json.dumps((state.parent / "secret").read_text()) == '"a private key"'


# --- how much -------------------------------------------------------------------


def test_the_oldest_go_when_there_is_no_room_and_what_is_made_again_is_new(tmp_path: Path) -> None:
    results = KeptResults(tmp_path / "state", OWNER, total_bytes=3000)
    kept = [results.keep(bytes([number]) * 1000, name="data") for number in range(4)]
    results.close()
    directory = tmp_path / "state/results" / OWNER
    for age, each in enumerate(reversed(kept)):
        if (directory / each.digest).exists():
            os.utime(directory / each.digest, (1e9 - age, 1e9 - age))
    results = KeptResults(tmp_path / "state", OWNER, total_bytes=3000, max_age=timedelta(days=100_000))
    results.keep(bytes([1]) * 1000, name="data")
    results.close()
    results.sweep()
    there = {path.name for path in directory.iterdir()}
    assert there == {kept[number].digest for number in (1, 2, 3)}
    assert refusal_of(lambda: opened(results, kept[0].handle)).code == "output_not_found"


def test_a_project_that_keeps_much_pushes_out_nothing_of_another_one(tmp_path: Path) -> None:
    quiet = KeptResults(tmp_path / "state", owner_of(Path("/quiet")), total_bytes=10_000)
    flooding = KeptResults(tmp_path / "state", owner_of(Path("/flooding")), total_bytes=10_000)
    kept = [quiet.keep(bytes([number]) * 1000, name="data") for number in range(3)]
    last = [flooding.keep(bytes([number]) * 999, name="data") for number in range(40)][-1]
    flooding.close()
    flooding.sweep()
    for each in kept:
        assert len(quiet.read_whole(each.handle, limit=1000)) == 1000
    assert len(flooding.read_whole(last.handle, limit=1000)) == 999
    there = [path.stat().st_size for path in (tmp_path / "state/results").rglob("*") if path.is_file()]
    assert sum(there) <= 10_000


def test_what_is_too_old_goes(state: Path) -> None:
    os.utime(stored(state), (1e9, 1e9))
    results = KeptResults(state, OWNER)
    results.keep(b"new", name="data")
    results.close()
    assert [path.read_bytes() for path in stored(state).parent.iterdir()] == [b"new"]


def test_no_more_is_taken_whole_than_was_asked_for(state: Path) -> None:
    results = KeptResults(state, OWNER)
    assert results.read_whole(result_handle(DIGEST), limit=len(SECRET)) == SECRET
    refused = refusal_of(lambda: results.read_whole(result_handle(DIGEST), limit=len(SECRET) - 1))
    assert refused.code == "too_large"


def test_a_file_over_the_limit_leaves_nothing(state: Path) -> None:
    results, source = KeptResults(state, OWNER), state.parent / "secret"
    with source.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        refused = refusal_of(lambda: results.keep_file(file.fileno(), name="data", limit=size - 1))
        assert refused.code == "too_large"
        assert [path.name for path in stored(state).parent.iterdir()] == [DIGEST]
        assert results.keep_file(file.fileno(), name="data", limit=size).size == size
    results.close()


def test_all_results_together_can_only_be_read(state: Path) -> None:
    results = KeptResults(state, None)
    opened(results, result_handle(DIGEST))
    with pytest.raises(ValueError, match="one project"):
        results.keep(b"more", name="data")
    assert [path.name for path in (state / "results").iterdir()] == [OWNER]
