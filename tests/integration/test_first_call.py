"""The first call of a server imports much; whoever asks something else is answered meanwhile."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SERVER = """
import sys, threading
from pathlib import Path
import anyio
from mcp import Client
from rye_mcp.mcp_server.rye_server import RyeServer
from tests.bridge_world import Bridged

WANTED = ("rye_mcp.mcp_server.calls", "rye_mcp.mcp_server.room")
for name in WANTED:
    sys.modules.pop(name, None)

class Noted:
    def find_spec(self, name, path=None, target=None):
        if name in WANTED:
            print(name, threading.current_thread() is threading.main_thread(), flush=True)

async def main():
    scene = Bridged(Path(sys.argv[1]))
    sys.meta_path.insert(0, Noted())
    async with Client(RyeServer(lambda _: scene.app)) as client:
        for _ in range(2):
            assert not (await client.call_tool("search", {"query": "*"})).is_error

anyio.run(main)
"""


def test_the_first_call_imports_beside_the_event_loop(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", SERVER, str(tmp_path)]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [
        "rye_mcp.mcp_server.calls False",
        "rye_mcp.mcp_server.room False",
    ]
