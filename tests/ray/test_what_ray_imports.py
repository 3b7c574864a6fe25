"""What we need of Ray that its documents do not promise: it works without what `nodes.sidecar` keeps from it.

The library is used alone here. If a new version of it fails, `UNUSED` in that module has to change.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rye_mcp.nodes.sidecar import UNUSED
from tests.ray_world import Grid

ASKS = """\
import json, os, sys

address, here, kept, named = *sys.argv[1:3], json.loads(sys.argv[3]), json.loads(sys.argv[4])
sys.modules.update(dict.fromkeys(kept))
import ray

ray.init(address, namespace="rye", log_to_driver=False, logging_level="ERROR", _node_ip_address=here)

@ray.remote(num_cpus=1)
class Slot:
    async def echo(self, data):
        return data

said = ray.get(Slot.remote().echo.remote(b"bytes"), timeout=60).decode()
imported = [each for each in named if sys.modules.get(each) is not None]
print("SAID" + json.dumps([said, imported]), flush=True)
os._exit(0)
"""


@pytest.mark.parametrize("is_kept", [False, True], ids=["where they may be imported", "where they may not"])
def test_ray_imports_what_it_finds_and_works_without_it(grid: Grid, tmp_path: Path, *, is_kept: bool) -> None:
    """Where it no longer imports one of them, the name can leave the list."""
    kept = list(UNUSED) if is_kept else []
    assert asked(grid, tmp_path, kept) == ["bytes", [] if is_kept else list(UNUSED)]


def asked(grid: Grid, home: Path, kept: list[str]) -> Any:
    """The answer of a slot, and which of the modules that we name Ray has imported by then."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(grid.token),
    }
    done = subprocess.run(
        [sys.executable, "-c", ASKS, grid.address, grid.here, json.dumps(kept), json.dumps(UNUSED)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    [said] = [line for line in done.stdout.splitlines() if line.startswith("SAID")] or [done.stderr]
    return json.loads(said.removeprefix("SAID"))
