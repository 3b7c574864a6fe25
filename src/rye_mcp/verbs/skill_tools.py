"""`skill_tools`: make a tool of a script of a skill, for a person to sign.

The tool is a short file that names the skill, the script, its arguments and what it may do. The script stays
where it is; nothing of it runs here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, Final

from lilux._dataclasses import dataclass
from rye_mcp.errors import RyeError
from rye_mcp.items import ItemFile, ItemType, SpaceName, check_item_id, printable, relative_path
from rye_mcp.metadata import examine, yaml_lines
from rye_mcp.scripts import calling_of, kind_of, read_script
from rye_mcp.spaces import read_skill_file
from rye_mcp.verbs.context import Context, options_of
from rye_mcp.verbs.load import require_no_clash, write_new

__all__ = ["MadeTool", "ToolRequest", "make_tool"]

_NO_SEGMENT: Final = re.compile(r"[^A-Za-z0-9_-]+", re.ASCII)
_FILE_MODE: Final = 0o644


@dataclass(frozen=True, slots=True)
class ToolRequest:
    """Which script of which skill, what it may do, and what the tool does."""

    name: str
    script: str
    permissions: Mapping[str, Any]
    description: str | None = None
    space: SpaceName | None = None


@dataclass(frozen=True, slots=True)
class MadeTool:
    """A tool that was written, unsigned; `remarks` say what its arguments may lack."""

    file: ItemFile
    remarks: tuple[str, ...] = ()

    @property
    def next_command(self) -> str:
        """The command that signs it."""
        return f"rye sign {self.file.item_id}{options_of(ItemType.TOOL, self.file.space.name)}"

    def as_dict(self) -> dict[str, Any]:
        """Return it as data."""
        return {
            "status": "created",
            "item_id": self.file.item_id,
            "path": printable(self.file.path),
            "remarks": list(self.remarks),
            "next": [self.next_command],
        }


def make_tool(request: ToolRequest, context: Context) -> MadeTool:
    """Write the tool; RyeError for a skill that does not pass the gate, and for what is no script."""
    skill = context.verify(context.spaces.find(request.name, ItemType.SKILL, only=request.space).item).file
    script = read_skill_file(skill, request.script)
    path = PurePath(request.script)
    try:
        text = script.content.decode("utf-8")
    except UnicodeDecodeError as exc:
        what = f"expected a script, found a file that is no text: {printable(script.path)}"
        raise RyeError("not_text", what, where=printable(script.path)) from exc
    kind = kind_of(path, text)
    declared, _ = read_script(kind, text, path, None)
    config, schema = calling_of(declared, None)
    fields = {
        "version": "0.1.0",
        "description": request.description
        or declared.description
        or f"Runs {request.script} of {request.name}.",
        "executor_id": kind.executor_id,
        "skill": {"name": request.name, "script": request.script},
        "permissions": dict(request.permissions),
        "config": config,
        "config_schema": schema,
    }
    item_id = _item_id(request.name, path)
    place = skill.space.root / relative_path(ItemType.TOOL, item_id, ".yaml")
    content = "".join(f"{line}\n" for line in yaml_lines(fields)).encode()
    file = ItemFile(skill.space, ItemType.TOOL, item_id, ".yaml", place, content)
    examine(file)
    require_no_clash(file, context)
    write_new(file, mode=_FILE_MODE)
    return MadeTool(file, (*kind.remarks, *declared.remarks))


def _item_id(name: str, script: PurePath) -> str:
    """`skills/<name>/<script>`, without the directory where scripts usually are, and without the ending."""
    parts = script.with_suffix("").parts
    parts = parts[1:] if len(parts) > 1 and parts[0] == "scripts" else parts
    return check_item_id(
        "/".join(("skills", name, *(_NO_SEGMENT.sub("-", part).strip("-") for part in parts)))
    )
