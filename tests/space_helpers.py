"""What tests of spaces share: three spaces in a temporary directory, and a canary outside of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from rye_mcp.errors import RyeError
from rye_mcp.items import Space, SpaceName
from rye_mcp.spaces import Spaces

__all__ = ["CANARY", "TOOL", "Ground", "refused"]

TOOL = b"__version__ = '1.0.0'\n"
CANARY = b"a secret that no item may carry\n"


@dataclass(frozen=True)
class Ground:
    """A directory with a project, a user and a system space, all empty, and a file that is none of theirs."""

    root: Path

    @classmethod
    def in_directory(cls, root: Path) -> Ground:
        ground = cls(root)
        for name in SpaceName:
            ground.space(name).mkdir(parents=True)
        ground.canary.write_bytes(CANARY)
        return ground

    @property
    def canary(self) -> Path:
        """What nothing may reach: a file outside of every space."""
        return self.root / "canary.py"

    @property
    def spaces(self) -> Spaces:
        """The three spaces, located anew."""
        return Spaces.locate(
            self.root / "project", user=self.root / "user", system=self.root / "system" / ".ai"
        )

    def space(self, name: SpaceName | str) -> Path:
        """The root of a space."""
        return self.root / str(name) / ".ai"

    def write(self, space: str, path: str, content: bytes = TOOL) -> Path:
        """A file in a space, with the directories above it."""
        target = self.space(space) / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        return target

    def as_space(self, name: SpaceName) -> Space:
        """A space as a value."""
        return Space(name, self.space(name).resolve())


@contextmanager
def refused(code: str, ground: Ground | None = None) -> Iterator[pytest.ExceptionInfo[RyeError]]:
    """A block that ends with a RyeError of this code, which carries nothing of the canary, nor touches it."""
    with pytest.raises(RyeError) as caught:
        yield caught
    assert caught.value.code == code, caught.value.message
    assert CANARY.decode().strip() not in str(caught.value.as_dict())
    if ground is not None:
        assert ground.canary.read_bytes() == CANARY
