"""Reads what an item says about itself out of its bytes, without running or importing anything.

The rules are in `docs/architecture/items.md`.

    metadata = parse_metadata(found.item)
    metadata.version, metadata.executor_id, metadata.config_schema
"""

from rye_mcp.metadata._code import code_of
from rye_mcp.metadata._fields import DEFAULT_VERSION, TOOL_TYPES, ItemMetadata
from rye_mcp.metadata._flags import CALLING_KEYS, Calling, Flag, Positional, read_calling
from rye_mcp.metadata._placing import SHARED, SHARED_NAME, Cluster, Engine, Placement, Resources
from rye_mcp.metadata._python import PYTHON_NAMES, parse_python
from rye_mcp.metadata._raw import without_values
from rye_mcp.metadata._reading import (
    MAX_LISTED_BYTES,
    RUNTIMES,
    SCHEMA_KINDS,
    Example,
    arguments_of,
    body_of,
    examine,
    examples_of,
    how_to_name_an_executor,
    metadata_schema,
    misspelt,
    parse_metadata,
)
from rye_mcp.metadata._skill import front_matter
from rye_mcp.metadata._warm import Warm
from rye_mcp.metadata._yaml import parse_configuration, yaml_lines

__all__ = [
    "CALLING_KEYS",
    "DEFAULT_VERSION",
    "MAX_LISTED_BYTES",
    "PYTHON_NAMES",
    "RUNTIMES",
    "SCHEMA_KINDS",
    "SHARED",
    "SHARED_NAME",
    "TOOL_TYPES",
    "Calling",
    "Cluster",
    "Engine",
    "Example",
    "Flag",
    "ItemMetadata",
    "Placement",
    "Positional",
    "Resources",
    "Warm",
    "arguments_of",
    "body_of",
    "code_of",
    "examine",
    "examples_of",
    "front_matter",
    "how_to_name_an_executor",
    "metadata_schema",
    "misspelt",
    "parse_configuration",
    "parse_metadata",
    "parse_python",
    "read_calling",
    "without_values",
    "yaml_lines",
]
