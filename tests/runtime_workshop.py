"""What tests of runtimes share: a project whose person signs tools, and runs them as every caller does.

Nothing stands between a test and the operating system here: tools are files, interpreters are those of this
machine. A test of a language that is not installed is skipped, and says which program is missing.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sysconfig
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rye_mcp.executor.primitive_executor import PrimitiveExecutor
from rye_mcp.executor.results import ExecutionResult
from rye_mcp.items import parse_relative_path
from rye_mcp.trust.dependency_manifest import manifest_file, render_listing
from tests.people import apart
from tests.trust_world import World

__all__ = ["Workshop", "needs", "nothing_is_left_of"]

SCRIPTS = sysconfig.get_path("scripts")


@dataclass
class Workshop:
    """A project of somebody who has a key."""

    world: World

    @property
    def project(self) -> Path:
        return self.world.project

    def write(self, relative: str, text: str) -> Path:
        """A file of the project that nobody signs, by its path below `.ai/tools`."""
        path = self.project / ".ai/tools" / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def sign(self, relative: str, text: str) -> str:
        """The id of a tool of the project, or of a runtime, that its person has signed."""
        return self.sign_item(f"tools/{relative}", text)

    def sign_item(self, relative: str, text: str) -> str:
        """The id of an item of any type that its person has signed, by its path below `.ai`."""
        item_type, item_id, extension = parse_relative_path(relative)
        file = self.world.file(text.encode(), item_id=item_id, extension=extension, item_type=item_type)
        self.world.stored(self.world.signed(file))
        return item_id

    def sign_listing(self, directory: str, *names: str) -> None:
        """Sign what a person says that the tools of a directory rest on: files that are there."""
        place = self.project / ".ai/tools" / directory
        digests = {name: hashlib.sha256((place / name).read_bytes()).hexdigest() for name in names}
        listing = manifest_file(self.world.space(), f"tools/{directory}", render_listing(digests))
        self.world.stored(self.world.signed(listing))

    async def run(
        self, item_id: str, parameters: Mapping[str, Any] | None = None, **options: Any
    ) -> ExecutionResult:
        """What comes of a call, also when it is refused."""
        executor = PrimitiveExecutor(
            self.project, user_space=self.world.user_space.parent, state=self.world.state
        )
        try:
            return await executor.execute(item_id, dict(parameters or {}), **options)
        finally:
            await executor.close()

    async def data(self, item_id: str, parameters: Mapping[str, Any] | None = None) -> Any:
        """The data of a call that succeeds."""
        result = await self.run(item_id, parameters)
        assert result.success, (result.code, result.error, result.stderr)
        return result.data


def needs(program: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The path of a program, also one of this environment, which is put on the PATH then, by itself.

    The test is skipped where it is not installed.
    """
    path = shutil.which(program) or shutil.which(program, path=SCRIPTS)
    if path is None:
        pytest.skip(f"{program} is not installed")
    if shutil.which(program) is None:
        monkeypatch.setenv("PATH", f"{os.environ['PATH']}:{apart(path)}")
    return path


def nothing_is_left_of(project: Path) -> bool:
    """Whether no process of a tool of this project is there, after one that has written the file `pid`.

    In a cell it has another pid, so what it was told tells it from everybody else.
    """
    assert (project / "pid").exists()
    told = f"RYE_PROJECT_PATH={project}".encode()
    return not any(told in environment for environment in _environments())


def _environments() -> Iterator[list[bytes]]:
    for place in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            yield place.read_bytes().split(b"\0")
