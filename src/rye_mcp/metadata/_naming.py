"""What to write into a script that does not say what runs it.

Rules:

- One table says which runtime of the system space fits an extension. Where there is none, nothing is said.
- What is told stands in one line, and is true of this file: a block that is there gets a line, and no other
  block. Python without a function to call is run as a script.
- A file that calls itself a library (`tool_type: library`) is one on purpose.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from rye_mcp.items import COMMENT_STYLES, ItemFile, printable
from rye_mcp.metadata._fields import ItemMetadata
from rye_mcp.metadata._python import comments_with_block

__all__ = ["RUNTIMES", "how_to_name_an_executor"]

_WHERE: Final = "rye/core/runtimes"

RUNTIMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        ".py": f"{_WHERE}/python_runtime",
        **dict.fromkeys((".sh", ".bash"), f"{_WHERE}/bash_runtime"),
        **dict.fromkeys((".js", ".mjs", ".cjs", ".ts"), f"{_WHERE}/node_runtime"),
        ".rb": f"{_WHERE}/ruby_runtime",
        ".pl": f"{_WHERE}/perl_runtime",
        "": f"{_WHERE}/binary_runtime",
    }
)
"""The runtime that a file with this extension is run by, unless it has reasons for another one."""

_SCRIPT_RUNTIME: Final = f"{_WHERE}/python_script_runtime"
_FUNCTION: Final = re.compile(rb"^(?:async[ \t]+)?def[ \t]+(?:main|execute)[ \t]*\(", re.MULTILINE)


def how_to_name_an_executor(file: ItemFile, metadata: ItemMetadata) -> str | None:
    """What to do so that a library can be run; None where it is to be one, or nothing here runs its kind."""
    runtime = RUNTIMES.get(file.extension)
    if runtime is None or metadata.tool_type == "library":
        return None
    where = printable(file.path)
    if file.extension == ".py" and comments_with_block(file.content.decode("utf-8", "replace")) is None:
        runtime = runtime if _FUNCTION.search(file.content) else _SCRIPT_RUNTIME
        return f"write the line '__executor_id__ = \"{runtime}\"' into {where}"
    if file.extension == ".py":
        runtime = _SCRIPT_RUNTIME
    comment = COMMENT_STYLES[file.extension].opening.decode("ascii")
    opening, line = f"{comment}/// rye", f"{comment}executor_id: {runtime}"
    if any(each.rstrip() == opening.encode() for each in file.content.split(b"\n")):
        return f"write the line '{line}' into the block '{opening}' of {where}"
    return f"write the three lines '{opening}', '{line}' and '{comment}///' into {where}"
