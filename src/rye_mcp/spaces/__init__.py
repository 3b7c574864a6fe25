"""Id → file: where items are, which of several counts, and how one is read.

Rules:

- Spaces are searched by precedence: project, user, system. From an item in one of them only that one and
  those below it are searched. What has the same id further down is reported as shadowed, and never read.
- Known ids are probed, extension by extension; nothing is listed for them but for twins. Same input, same
  answer: one id for two files, and two ids that differ only in case, are `ambiguous_item`, whichever comes
  first on the disk.
- No symbolic link below the root of a space is followed, and only regular files of at most 1 MiB are read,
  once each. What is in the way of a file, a link or a FIFO, is an error and never a reason to go on to the
  next space: otherwise whoever can put a link into a project could choose what is found.
- A hard link is a file like any other.
- Nothing is decided about trust: the bytes are handed over as an `ItemFile`, which has yet to be verified.

This package is the only code that walks a space.

    spaces = Spaces.locate(Path("/work/project"))
    found = spaces.find("demo/hello")
    found.item.content, found.item.space.name, found.shadowed
"""

from rye_mcp.spaces._roots import DIRECTORY_NAME
from rye_mcp.spaces._scan import Entering, Stamp, is_settled
from rye_mcp.spaces._search import Found, Reader, Spaces
from rye_mcp.spaces._walk import Listing

__all__ = ["DIRECTORY_NAME", "Entering", "Found", "Listing", "Reader", "Spaces", "Stamp", "is_settled"]
