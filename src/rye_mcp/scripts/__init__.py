"""Scripts that were written for nobody's tool runner: which arguments they take, which runtime fits them.

Rules:

- Only bytes are looked at: nothing is run, imported or worked out here.
- What cannot be read plainly is left out, and said (`remarks`).
"""

from rye_mcp.scripts.declared import Declared, Option, block_of, calling_of, metadata_block, with_block
from rye_mcp.scripts.kinds import Kind, kind_of, read_script
from rye_mcp.scripts.plain_text import read_help

__all__ = [
    "Declared",
    "Kind",
    "Option",
    "block_of",
    "calling_of",
    "kind_of",
    "metadata_block",
    "read_help",
    "read_script",
    "with_block",
]
