"""What a cluster answers is bytes: whoever holds its token starts nothing in the process of a server.

The stranger here is a slot of theirs, which answers with a pickle that runs what they like.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from rye_mcp.nodes import sidecar
from tests.ray_world import Grid

ASKS = """\
import asyncio, json, os, sys
from importlib.util import module_from_spec, spec_from_file_location

spec = spec_from_file_location("sidecar", sys.argv[1])
sidecar = module_from_spec(spec)
spec.loader.exec_module(sidecar)
ray = sidecar.connected({"address": sys.argv[2], "here": sys.argv[4]})

class Trap:
    def __init__(self, mark):
        self.mark = mark
    def __reduce__(self):
        return os.mkdir, (self.mark,)

class TrapError(Exception):
    def __init__(self, mark):
        super().__init__(mark)
        self.mark = mark
    def __reduce__(self):
        return os.mkdir, (self.mark,)

@ray.remote(num_cpus=1)
class Stranger:
    async def read(self, mark):
        return Trap(mark)
    async def begin(self, mark):
        raise TrapError(mark)
    async def honest(self):
        return b"bytes"

async def main():
    stranger, said = Stranger.remote(), {}
    for name in ("read", "begin"):
        try:
            said[name] = repr(await getattr(stranger, name).remote(sys.argv[3] + name))
        except ray.exceptions.RayError as exc:
            said[name] = "refused"
    said["honest"] = (await stranger.honest.remote()).decode()
    print("SAID" + json.dumps(said), flush=True)

asyncio.run(main())
os._exit(0)
"""


def test_a_slot_that_answers_with_a_pickle_runs_nothing_in_the_process_of_the_server(
    grid: Grid, tmp_path: Path
) -> None:
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(grid.token),
    }
    mark = tmp_path / "ran-"
    asked = subprocess.run(
        [sys.executable, "-c", ASKS, sidecar.__file__, grid.address, str(mark), grid.here],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    [said] = [line for line in asked.stdout.splitlines() if line.startswith("SAID")] or [asked.stderr]
    assert json.loads(said.removeprefix("SAID")) == {"read": "refused", "begin": "refused", "honest": "bytes"}
    assert list(tmp_path.glob("ran-*")) == []
