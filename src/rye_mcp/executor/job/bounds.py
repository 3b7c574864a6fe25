"""The confinement of a program that a primitive of this process starts, and that may outlive its call.

Calls with equal bounds may share a program: the servers of `rye mcp` do.
"""

from __future__ import annotations

from dataclasses import field, replace
from functools import partial
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Self

from lilux._dataclasses import dataclass
from rye_mcp.apart import off_loop

if TYPE_CHECKING:
    from lilux.primitives.subprocess import Halves
    from rye_mcp.executor.job.confinement import Confined, Confinement, Rights
    from rye_mcp.trust.directories import Directories

__all__ = ["Bounds"]


@dataclass(frozen=True, slots=True)
class Bounds:
    """The rights of a program, and the facts about this machine."""

    rights: Rights
    confinement: Confinement = field(compare=False, repr=False)
    directories: Directories = field(compare=False, repr=False)

    def shared(self) -> Self:
        """The bounds of a program that all items in a directory share, with the files that it keeps."""
        directory = str(PurePosixPath(self.rights.item_id).parent)
        return replace(self, rights=replace(self.rights, item_id=directory))

    async def around(self, process: Halves) -> Confined:
        """The process under its policy; RyeError `denied_by_policy` for what no program gets here."""
        facts = await self.confinement.facts()
        confine = partial(self.confinement.confine_lasting, self.rights, process, facts)
        return await off_loop(confine)
