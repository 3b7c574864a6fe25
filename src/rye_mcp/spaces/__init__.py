"""Finds and reads the file of an item: where the spaces are, and which of several files counts.

This package is the only code that walks a space. Its rules are in `docs/architecture/items.md`.

    found = Spaces.locate(Path("/work/project")).find("demo/hello")
    found.item.content, found.item.space.name, found.shadowed
"""

from rye_mcp.spaces._directories import Stamp, is_settled
from rye_mcp.spaces._listing import Entering, Listing
from rye_mcp.spaces._lookup import Found, Reader, Spaces
from rye_mcp.spaces._roots import DIRECTORY_NAME
from rye_mcp.spaces._skills import each_file, read_skill_file, scan_files, skill_of, skill_place

__all__ = [
    "DIRECTORY_NAME",
    "Entering",
    "Found",
    "Listing",
    "Reader",
    "Spaces",
    "Stamp",
    "each_file",
    "is_settled",
    "read_skill_file",
    "scan_files",
    "skill_of",
    "skill_place",
]
