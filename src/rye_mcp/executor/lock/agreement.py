"""What a person agrees to before a tool runs, and the check that nothing else runs.

One mark stands for everything that a lockfile would pin; another byte is another mark. It is compared with
the bytes that run. Parameters are not in it: the caller that asked holds them, and hands over the same ones.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from lilux._dataclasses import dataclass
from rye_mcp.errors import RyeError
from rye_mcp.executor.chain.validator import ValidChain
from rye_mcp.executor.configuration.merged import runs_given_code
from rye_mcp.executor.configuration.parameters import Parameters
from rye_mcp.executor.lock.pins import Pins

__all__ = ["Preview", "Way", "mark_of", "require_agreed"]

Way = tuple[str | int, ...]
"""The names and numbers that lead to a value."""


@dataclass(frozen=True, slots=True)
class Preview:
    """What would run: `mark` stands for all of its files, `root` is the tool with its signer.

    `brought` are the files of its own that the tool brings along, path → SHA256. `is_direct`
    says that a primitive is called by itself, where the caller invents the names of the parameters, and
    `runs_given_code` that what runs may come from the caller.
    `declared` are the ways to values that the tool's schema names, one name after the other.
    """

    mark: str
    item_id: str
    digest: str
    signer: Mapping[str, Any]
    brought: Mapping[str, str]
    parameters: Parameters
    is_direct: bool = False
    runs_given_code: bool = False
    declared: frozenset[Way] = frozenset()

    @classmethod
    def of(cls, valid: ValidChain, parameters: Parameters) -> Preview:
        """That of a chain which is ready to run."""
        root, chain = valid.verified.root, valid.verified.chain
        return cls(
            mark_of(valid),
            chain.root.item_id,
            root.digest,
            root.signer.as_dict(),
            {file.relative: file.digest for file in valid.verified.carried.files[1:]},
            parameters,
            is_direct=chain.root.metadata.is_primitive,
            runs_given_code=runs_given_code(chain, parameters.declared),
            declared=frozenset(_declared(parameters.values, chain.root.metadata.config_schema)),
        )


def _declared(value: Any, schema: Any, way: Way = ()) -> Iterator[Way]:
    """The ways to the values whose names stand in a schema itself; it follows no references."""
    if not isinstance(schema, Mapping):
        return
    properties = schema.get("properties")
    if isinstance(value, Mapping) and isinstance(properties, Mapping):
        for name in value.keys() & properties.keys():
            yield (*way, name)
            yield from _declared(value[name], properties[name], (*way, name))
    if isinstance(value, list):
        for number, each in enumerate(value):
            yield from _declared(each, schema.get("items"), (*way, number))


def mark_of(valid: ValidChain) -> str:
    """What stands for every file of a run."""
    pins = Pins.of_chain(valid)
    whole = [pins.root, pins.elements, sorted((pins.dependencies or {}).items())]
    return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()


def require_agreed(valid: ValidChain, mark: str | None) -> None:
    """Refuse a chain that differs from the one that was agreed to; None if nobody had to agree."""
    if mark is not None and mark_of(valid) != mark:
        item_id = valid.verified.chain.root.item_id
        what = (
            f"expected {item_id} as it was agreed to, found that it, or what it rests on, has changed since"
        )
        raise RyeError("confirmation_outdated", what, item_id=item_id)
