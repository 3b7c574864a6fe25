"""Attack: what a tool leaves in `RYE_OUTPUT_DIR` leads elsewhere, waits for ever, or is too much."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rye_mcp.executor.job.output_files import MAX_FILES, MAX_NAME_BYTES, MAX_OUTPUT_BYTES
from tests.mcp_world import *  # noqa: F403
from tests.mcp_world import Workshop, facts

pytestmark = pytest.mark.anyio

SECRET = "a private key"
PLACE = "import os, shutil; place = os.environ['RYE_OUTPUT_DIR']; secret = params['secret']\n"
FREE = 'PERMISSIONS = {"project": "write", "net": "any"}\n'

LEADS_ELSEWHERE = {
    "a link": "os.symlink(secret, place + '/a')",
    "a second name": "os.link(shutil.copy(secret, place + '/../b'), place + '/a')",
    "a link to a directory": "os.symlink(os.path.dirname(secret), place + '/a')",
    "a directory": "os.mkdir(place + '/a'); shutil.copy(secret, place + '/a/secret')",
    "a pipe": "os.mkfifo(place + '/a')",
    "a name too long": f"open(place + '/' + 'a' * {MAX_NAME_BYTES + 1}, 'w').write('b')",
}
LEADS_AWAY = {
    "a link in its place": "os.rmdir(place); os.symlink(os.path.dirname(secret), place)",
    "a file in its place": "os.rmdir(place); shutil.copy(secret, place)",
    "nothing in its place": "os.rmdir(place)",
}


async def ran(workshop: Workshop, code: str) -> dict[str, Any]:
    """What comes of a tool that may write the project, in which there is a secret."""
    secret = workshop.project / "secrets/key"
    secret.parent.mkdir()
    secret.write_text(SECRET)
    workshop.tool("demo/leaves", PLACE + code + "\nprint('done')", metadata=FREE)
    async with workshop.served("auto") as client:
        call = {"item_id": "demo/leaves", "parameters": {"secret": str(secret)}}
        return facts(await client.call_tool("execute", call))


@pytest.mark.thorough
@pytest.mark.parametrize("what", [*LEADS_ELSEWHERE, *LEADS_AWAY])
async def test_nothing_but_files_of_the_run_is_kept(workshop: Workshop, what: str) -> None:
    beside = "; open(place + '/z', 'w').write('mine')" if what in LEADS_ELSEWHERE else ""
    found = await ran(workshop, (LEADS_ELSEWHERE | LEADS_AWAY)[what] + beside)
    assert (found["status"], found["data"]) == ("success", "done\n")
    assert [kept["name"] for kept in found.get("kept", ())] == (["z"] if beside else [])
    assert [notice["code"] for notice in found["notices"]].count("output_left_out") == 1
    assert SECRET not in json.dumps(found)
    results = workshop.person.state / "rye/results"
    assert not any(SECRET.encode() in path.read_bytes() for path in results.rglob("*") if path.is_file())


@pytest.mark.thorough
async def test_of_too_many_files_only_so_many_are_kept(workshop: Workshop) -> None:
    found = await ran(workshop, "[open(f'{place}/{n:04}', 'w').write(str(n)) for n in range(500)]")
    assert [kept["name"] for kept in found["kept"]] == [f"{n:04}" for n in range(MAX_FILES)]
    [notice] = [each for each in found["notices"] if each["code"] == "output_left_out"]
    assert f"more than {MAX_FILES} files" in notice["message"]


async def test_of_too_many_bytes_only_so_many_are_kept(workshop: Workshop) -> None:
    """A file with a hole takes no room on the disk, and would take all of it in the store."""
    found = await ran(
        workshop, f"open(place + '/a', 'w').truncate({MAX_OUTPUT_BYTES + 1}); open(place + '/b', 'w')"
    )
    assert [kept["name"] for kept in found["kept"]] == ["b"]
    [notice] = [each for each in found["notices"] if each["code"] == "output_left_out"]
    assert f"a (more than {MAX_OUTPUT_BYTES} bytes in all files)" in notice["message"]


async def test_a_name_that_a_terminal_or_a_model_obeys_is_shown(workshop: Workshop) -> None:
    found = await ran(workshop, "open(place + '/a\\x1b[2J\\u202e\\nb', 'w')")
    assert "\x1b" not in json.dumps(found, ensure_ascii=False)
    assert found["kept"][0]["name"].isprintable()
