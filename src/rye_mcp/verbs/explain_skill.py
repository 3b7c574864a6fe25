"""`explain_skill`: what a skill is: who signed it, its files, what to look at, its tools and its copies.

Nothing of it runs. It is for people: also what a skill holds that is refused is shown.

    explain_skill("brew-tea", context).integrity.state
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lilux._dataclasses import dataclass
from rye_mcp.errors import RyeError
from rye_mcp.executor.lock.skills import SkillLocks
from rye_mcp.executor.lock.store import StoredLock
from rye_mcp.items import NO_FILES, ItemFile, ItemPlace, ItemType, SpaceName, printable
from rye_mcp.metadata import ItemMetadata, parse_metadata
from rye_mcp.permissions import sentence
from rye_mcp.verbs._answers import Integrity
from rye_mcp.verbs._selection import select
from rye_mcp.verbs._skill_copies import CLIENTS, difference
from rye_mcp.verbs._skill_writing import files_of
from rye_mcp.verbs.context import Context
from rye_mcp.verbs.skill_review import Review, review

__all__ = ["Copy", "ExplainedSkill", "ScriptTool", "explain_skill"]


@dataclass(frozen=True, slots=True)
class ScriptTool:
    """A tool that runs a script of the skill, and what it may do, as far as it passes the gate."""

    item_id: str
    script: str
    integrity: Integrity
    declares: str | None

    def as_dict(self) -> dict[str, Any]:
        """Return it as data."""
        known = {"item_id": self.item_id, "script": printable(self.script), "declares": self.declares}
        return known | {"integrity": self.integrity.as_dict()}


@dataclass(frozen=True, slots=True)
class Copy:
    """What a client has under the name of the skill; `differs` names the first other file, None for none."""

    client: str
    path: Path
    differs: str | None

    def as_dict(self) -> dict[str, Any]:
        """Return it as data."""
        differs = None if self.differs is None else printable(self.differs)
        return {"client": self.client, "path": printable(self.path), "differs": differs}


@dataclass(frozen=True, slots=True)
class ExplainedSkill:
    """A skill, signed or not; `description` is None where its front matter cannot be read."""

    file: ItemFile
    integrity: Integrity
    description: str | None
    review: Review
    lock: StoredLock | None = None
    tools: tuple[ScriptTool, ...] = ()
    copies: tuple[Copy, ...] = ()
    shadows: tuple[ItemPlace, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return it as data."""
        files = (self.file.skill or NO_FILES).files
        return {
            "status": "success",
            "item_id": self.file.item_id,
            "type": ItemType.SKILL.value,
            "space": self.file.space.name.value,
            "path": printable(self.file.text_path.parent),
            "description": None if self.description is None else printable(self.description),
            "integrity": self.integrity.as_dict(),
            "lock": None if self.lock is None else printable(self.lock.path),
            "files": [
                {"path": printable(path), "sha256": each.digest, "size": each.size}
                for path, each in sorted(files.items())
            ],
            "review": self.review.as_dict(),
            "tools": [each.as_dict() for each in self.tools],
            "copies": [each.as_dict() for each in self.copies],
            "shadows": [
                {"space": place.space.name.value, "path": printable(place.path)} for place in self.shadows
            ],
        }


def explain_skill(name: str, context: Context, space: SpaceName | None = None) -> ExplainedSkill:
    """Explain a skill; RyeError if it is missing, and for agents, which only see skills that pass."""
    if not context.is_person:
        raise RyeError("person_required", f"expected a person to look at {name}, found an agent")
    found = context.spaces.find(name, ItemType.SKILL, only=space)
    file = found.item
    return ExplainedSkill(
        file,
        _integrity(file, context),
        _description(file),
        review(file, {path: each.content for path, each in files_of(file).items()}),
        _lock(file, context),
        tuple(_tools(name, context)),
        tuple(_copies(file)),
        found.shadowed,
    )


def _integrity(file: ItemFile, context: Context) -> Integrity:
    try:
        return Integrity.of(context.verify(file))
    except RyeError as exc:
        return Integrity(refusal=exc)


def _description(file: ItemFile) -> str | None:
    try:
        return parse_metadata(file).description
    except RyeError:
        return None  # the refusal of the gate says what is wrong


def _lock(file: ItemFile, context: Context) -> StoredLock | None:
    if file.space.name is not SpaceName.PROJECT:
        return None
    try:
        return SkillLocks(context.spaces).find(file.item_id)
    except RyeError:
        return None  # the gate has refused the skill for it


def _tools(name: str, context: Context) -> Iterator[ScriptTool]:
    """The tools that are made of the scripts of this skill, signed or not."""
    names = [each.name for each in context.spaces.accessible()]
    for place in select(context.spaces, f"skills/{name}/*", names=names, types=[ItemType.TOOL]).places:
        try:
            file = context.spaces.read(place)
            metadata = parse_metadata(file)
        except RyeError as exc:
            yield ScriptTool(place.item_id, "", Integrity(refusal=exc), None)
            continue
        yield ScriptTool(place.item_id, _script_of(metadata), _integrity(file, context), _declared(metadata))


def _script_of(metadata: ItemMetadata) -> str:
    return "" if metadata.skill is None else metadata.skill.get("script", "")


def _declared(metadata: ItemMetadata) -> str | None:
    return None if metadata.permissions is None else sentence(metadata.permissions)


def _copies(file: ItemFile) -> Iterator[Copy]:
    base = file.space.root.parent
    for client, directory in CLIENTS.items():
        path = base / directory / file.item_id
        if path.is_dir() or path.is_symlink():
            yield Copy(client, path, difference(file, base, directory))
