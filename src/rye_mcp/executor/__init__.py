"""From a tool's id to a finished run: every stage takes what the one before it made, and nothing else.

`Chain` → `VerifiedChain` → `ValidChain` → `PinnedChain` → `PreparedCall`: each is a frozen value that only
its own module makes, so no stage can be left out. The recipe is `PrimitiveExecutor`.

The names that other programs use are listed here. Each is imported when it is first used, so asking for the
role of an item does not load the code that runs it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rye_mcp.executor.chain.builder import MAX_CHAIN_DEPTH, CacheEntry, Chain, ChainElement, ChainError
    from rye_mcp.executor.chain.validator import ChainValidator
    from rye_mcp.executor.chain.verifier import IntegrityVerifier
    from rye_mcp.executor.lock.resolver import LockfileResolver
    from rye_mcp.executor.primitive_executor import PrimitiveExecutor
    from rye_mcp.executor.results import ExecutionResult

__all__ = [
    "MAX_CHAIN_DEPTH",
    "CacheEntry",
    "Chain",
    "ChainElement",
    "ChainError",
    "ChainValidator",
    "ExecutionResult",
    "IntegrityVerifier",
    "LockfileResolver",
    "PrimitiveExecutor",
]

_PLACES = {
    **dict.fromkeys(
        ("MAX_CHAIN_DEPTH", "CacheEntry", "Chain", "ChainElement", "ChainError"), "chain.builder"
    ),
    "ChainValidator": "chain.validator",
    "ExecutionResult": "results",
    "IntegrityVerifier": "chain.verifier",
    "LockfileResolver": "lock.resolver",
    "PrimitiveExecutor": "primitive_executor",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
