"""Bytes → what an item says about itself.

Rules:

- Nothing is ever run, imported or worked out, whatever the bytes are, and nothing but the bytes is looked at.
- Python is read by the literals of its syntax tree, YAML by a parser that knows only data, every other
  language by a block of comments that holds YAML, Markdown by its front matter.
- Everything that is wrong is reported at once, as RyeError `invalid_item` with the lines: syntax, wrong
  types, unknown tool types, versions, schemas, examples. Too deep, too long and too much are wrong too, and
  are found out in little time.
- A file that names no executor is a library, which is not the same as one that names none on purpose
  (`executor_id: null`, a primitive).
- What was parsed is kept by the hash of the bytes.

    metadata = parse_metadata(found.item)
    metadata.version, metadata.executor_id, metadata.config_schema
"""

from rye_mcp.metadata._configuration import parse_configuration
from rye_mcp.metadata._examples import Example
from rye_mcp.metadata._fields import DEFAULT_VERSION, TOOL_TYPES, ItemMetadata
from rye_mcp.metadata._flags import CALLING_KEYS, Calling, Flag, Positional, read_calling
from rye_mcp.metadata._issues import without_values
from rye_mcp.metadata._listing import MAX_LISTED_BYTES, arguments_of
from rye_mcp.metadata._naming import RUNTIMES, how_to_name_an_executor
from rye_mcp.metadata._python import PYTHON_NAMES, parse_python
from rye_mcp.metadata._reading import body_of, examine, examples_of, misspelt, parse_metadata

__all__ = [
    "CALLING_KEYS",
    "DEFAULT_VERSION",
    "MAX_LISTED_BYTES",
    "PYTHON_NAMES",
    "RUNTIMES",
    "TOOL_TYPES",
    "Calling",
    "Example",
    "Flag",
    "ItemMetadata",
    "Positional",
    "arguments_of",
    "body_of",
    "examine",
    "examples_of",
    "how_to_name_an_executor",
    "misspelt",
    "parse_configuration",
    "parse_metadata",
    "parse_python",
    "read_calling",
    "without_values",
]
