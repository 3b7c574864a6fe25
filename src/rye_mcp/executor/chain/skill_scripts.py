"""The skill that a tool runs a script of: all its files, read once, as they were signed.

A tool of a skill is a file that names the skill, the script and what it may do. Both signatures count: that
of the tool, which a person has made, and that of the skill, of which every file comes along.
"""

from __future__ import annotations

from collections.abc import Mapping

from lilux._dataclasses import dataclass
from rye_mcp.errors import RyeError
from rye_mcp.executor.chain.anchor import Tree
from rye_mcp.executor.chain.builder import ChainElement
from rye_mcp.items import MAX_ITEM_BYTES, MAX_SKILL_BYTES, ItemFile, ItemType, printable
from rye_mcp.spaces import skill_of, skill_place
from rye_mcp.spaces.source_tree import SourceFile
from rye_mcp.trust.listing import listed_paths
from rye_mcp.trust.scope import Role, Signer, SignerKind
from rye_mcp.trust.verify import Trust, VerifiedItem, verify_item

__all__ = ["WholeSkill", "require_persons_tool", "whole_skill"]


@dataclass(frozen=True, slots=True)
class WholeSkill:
    """A skill that passed the gate, with its files by their paths, and the one that is run."""

    item: VerifiedItem
    files: Mapping[str, SourceFile]
    script: str


def require_persons_tool(element: ChainElement, signer: Signer | None) -> None:
    """Only a person makes a tool of a script that came with a skill."""
    if signer is None or signer.kind is SignerKind.AGENT:
        what = f"expected a person's signature on {element.item_id}, which runs a script of a skill"
        found = "an agent's" if signer is not None else "an agent that signs it"
        raise RyeError(
            "person_required",
            f"{what}, found {found}",
            where=printable(element.path),
            item_id=element.item_id,
            hint=f"ask a person to read the script and what it may do, then: rye sign {element.item_id}",
        )


def whole_skill(element: ChainElement, signer: Signer, trust: Trust, tree: Tree) -> WholeSkill | None:
    """The skill of a tool; None for a tool of none, RyeError for a skill that does not pass the gate."""
    named = element.metadata.skill
    if named is None:
        return None
    require_persons_tool(element, signer)
    file, files = _read(element, named["name"], tree)
    try:
        item = verify_item(file, trust, role=Role.SKILL)
    except RyeError as exc:
        command = f"rye sign {file.item_id}"
        exc.hint = f"{exc.hint} --type skill" if exc.hint.endswith(command) else exc.hint
        raise
    if item.signer.kind is SignerKind.AGENT:
        what = f"expected a person's signature on the skill {named['name']}, as {element.item_id} has one"
        hint = f"read it, then: rye sign {named['name']} --type skill"
        raise RyeError("out_of_scope", f"{what}, found an agent's", where=printable(file.path), hint=hint)
    if named["script"] not in files:
        shown = printable(file.text_path.parent / named["script"])
        what = f"expected the script of {element.item_id} in the skill {named['name']}, found none: {shown}"
        raise RyeError("invalid_item", what, where=shown, item_id=element.item_id)
    return WholeSkill(item, files, named["script"])


def _read(element: ChainElement, name: str, tree: Tree) -> tuple[ItemFile, dict[str, SourceFile]]:
    space = element.file.space
    place = skill_place(space, name)
    directory = f"{ItemType.SKILL.directory}/{name}"
    listing = tree.read(f"{directory}{place.extension}", limit=MAX_ITEM_BYTES)
    content = b"" if listing is None else listing.content
    unread = ItemFile(space, ItemType.SKILL, name, place.extension, place.path, content)
    there = tree.list(directory)
    if (strange := next((each for each in there if not each.is_regular), None)) is not None:
        raise tree.unsafe(strange)
    names = {each.relative.removeprefix(f"{directory}/") for each in there} | listed_paths(unread)
    files: dict[str, SourceFile] = {}
    room = MAX_SKILL_BYTES
    for path in sorted(names):
        found = tree.read(f"{directory}/{path}", limit=room)
        if found is not None:
            files[path] = found
            room -= len(found.content)
    skill = skill_of(files.items())
    return ItemFile(space, ItemType.SKILL, name, place.extension, place.path, content, skill), files
