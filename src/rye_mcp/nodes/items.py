"""The text of an engine, as `rye engine` writes it: YAML in one form, from a configuration and back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rye_mcp.errors import RyeError
from rye_mcp.items import ItemFile
from rye_mcp.metadata import parse_metadata
from rye_mcp.trust.decisions import KeyToAdd
from rye_mcp.trust.scope import SignerKind
from rye_mcp.trust.trust_document import MAX_DOCUMENT_BYTES

__all__ = ["document_key", "engine_text", "with_nodes"]


def engine_text(name: str, config: dict[str, Any]) -> str:
    """The file of an engine, without a signature. JSON is YAML, and leaves nothing to guess."""
    lines = [f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in config.items()]
    head = [f"# Where tools of this user run: rye engine list shows it, rye engine check {name} tries it."]
    return "\n".join([*head, 'version: "1.0.0"', "tool_type: engine", "config:", *lines, ""])


def with_nodes(file: ItemFile, key_ids: Sequence[str]) -> dict[str, Any]:
    """The configuration of an engine that passed the gate, with more nodes."""
    config = dict(parse_metadata(file).config or {})
    return config | {"nodes": list(dict.fromkeys((*config["nodes"], *key_ids)))}


def document_key(path: Path) -> str:
    """The id of the key in a node's document; RyeError if the file is not such a document."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_DOCUMENT_BYTES + 1)
    except OSError as exc:
        raise RyeError("read_failed", f"expected a file, found: {exc.strerror}", where=path) from exc
    document = KeyToAdd(data, path).as_document()
    if document.kind is not SignerKind.RUNNER:
        what = f"expected the key of a runner in {path}, found that of {document.kind}"
        raise RyeError("unusable_key", what, where=path, hint="on the node: rye node init > NODE.toml")
    return document.key.key_id
