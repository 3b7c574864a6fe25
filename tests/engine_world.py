"""What tests of engines share: a server whose user has an engine over a stand-in for ssh, and its node."""

from __future__ import annotations

import os
import shlex
import sysconfig
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from rye_mcp.app import App, Settings
from rye_mcp.executor.primitive_executor import PrimitiveExecutor, Watch
from rye_mcp.items import SpaceName
from rye_mcp.nodes.items import engine_text
from rye_mcp.trust.keys import SigningKey
from tests.worker_world import COUNTER, Pair

__all__ = ["Site", "tool"]

SSH = """\
#!/bin/sh
# Stands in for ssh: what it is told goes to a file, then the other machine's program runs as its user.
echo "$@" >> {told}
export HOME={home} XDG_STATE_HOME={state} XDG_CACHE_HOME={cache} COUNTED={counted}
{rye} worker
"""


def tool(script: str = COUNTER, *more: str) -> str:
    schema = "config_schema: {properties: {word: {type: string}}}"
    said = "".join(f"# {line}\n" for line in ("workspace: none", schema, *more))
    head = "# /// rye\n# executor_id: bash_runtime\n# config: {params_env: RYE_PARAM_}\n"
    return f"{head}{said}# ///\n{script}\n"


class Site:
    """A server whose user has an engine over (a stand-in for) ssh, and the node that it leads to."""

    def __init__(self, root: Path) -> None:
        self.pair = Pair.at(root)
        self.told = root / "ssh-was-told"
        self.bin = root / "bin"
        node, rye = self.pair.node.world, Path(sysconfig.get_path("scripts"), "rye")
        self.bin.mkdir()
        paths = {
            "told": self.told,
            "home": node.root / "home",
            "state": node.state.parent,
            "cache": node.root / "cache",
            "counted": node.root / "counted",
            "rye": rye,
        }
        (self.bin / "ssh").write_text(
            SSH.format_map({name: shlex.quote(str(path)) for name, path in paths.items()})
        )
        (self.bin / "ssh").chmod(0o755)

    @property
    def node_key(self) -> str:
        return self.pair.key_of(self.pair.node).public.key_id

    def engine(
        self,
        name: str = "gpu1",
        *,
        space: SpaceName = SpaceName.USER,
        key: SigningKey | None = None,
        **config: Any,
    ) -> Path:
        """An engine that the user of the server has signed, unless another key did, in their space."""
        whole = {"via": "ssh", "host": "gpu1", "nodes": [self.node_key], "takes": ["demo/*"], **config}
        world = self.pair.server.world
        text = engine_text(name, {key: value for key, value in whole.items() if value is not None})
        file = world.file(text.encode(), item_id=f"engines/{name}", extension=".yaml", space=space)
        return world.stored(world.signed(file, key)).path

    @asynccontextmanager
    async def executor(self) -> AsyncIterator[PrimitiveExecutor]:
        world = self.pair.server.world
        path = f"{self.bin}:{os.environ['PATH']}"
        settings = Settings.find(
            project=world.project,
            user_directory=world.user_space.parent,
            state=world.state,
            environment={
                "PATH": path,
                "HOME": str(world.root / "home"),
                "COUNTED": str(world.root / "counted"),
            },
        )
        app = App.open(settings)
        async with app.closing():
            yield app.executor()

    async def run(self, item_id: str = "demo/count", values: Any = None, watch: Watch | None = None) -> Any:
        async with self.executor() as executor:
            return await executor.run(item_id, values, watch=watch)

    @property
    def ran_here(self) -> bool:
        return (self.pair.server.world.root / "counted").exists()
