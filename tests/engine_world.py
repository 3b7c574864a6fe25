"""What tests of engines share: a server whose user has an engine over a stand-in for ssh, and its node."""

from __future__ import annotations

import os
import shlex
import subprocess
import sysconfig
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from rye_mcp.app import App, Settings
from rye_mcp.executor.primitive_executor import PrimitiveExecutor, Watch
from rye_mcp.items import SpaceName
from rye_mcp.nodes.items import engine_text
from rye_mcp.trust.approvals import Approvals
from rye_mcp.trust.keys import SigningKey
from tests.worker_world import COUNTER, Pair

__all__ = [
    "MEGABYTE",
    "Site",
    "approved_repository",
    "git",
    "lines_of",
    "tool",
    "workspace_tool",
    "written_to_workers",
]

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


MEGABYTE = 1 << 20


def workspace_tool(script: str, workspace: str, *more: str) -> str:
    """A tool that works on files, wherever it runs."""
    said = "".join(f"# {line}\n" for line in (f"workspace: {workspace}", *more))
    return f"# /// rye\n# executor_id: bash_runtime\n{said}# ///\n{script}\n"


def git(project: Path, *words: str) -> None:
    subprocess.run(["git", "-C", str(project), "-c", "core.hooksPath=/dev/null", *words], check=True)


def approved_repository(site: Site) -> Path:
    """The project of the server, with a repository; it is approved."""
    found = site.pair.server.world.project
    git(found, "init", "--quiet")
    (found / "told.txt").write_text("told\n")
    (found / "bin").mkdir()
    (found / "bin/run").write_text("#!/bin/sh\necho ran\n")
    (found / "bin/run").chmod(0o755)
    git(found, "add", "told.txt", "bin")
    Approvals(found, site.pair.server.world.state).approve_project()
    return found


def lines_of(result: Any) -> list[str]:
    """The words that a run printed; it went well."""
    assert result.success, result.as_dict()
    return str(result.data).split()


def written_to_workers(site: Site) -> Path:
    """A file that gets all that the server writes to its workers; the project has a file of a megabyte."""
    ssh, wire = site.bin / "ssh", site.told.with_name("wire")
    ssh.write_text(
        ssh.read_text().replace("worker\n", f"worker < <(tee -a {wire})\n").replace("/sh", "/bash")
    )
    project = site.pair.server.world.project
    (project / "large").write_bytes(os.urandom(MEGABYTE))
    git(project, "add", "large")
    return wire
