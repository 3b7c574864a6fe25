"""Facts of a call for its receipt: the bytes that ran, and their input."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

import msgspec

from rye_mcp.errors import printable
from rye_mcp.executor.chain.builder import Chain, once_a_chain
from rye_mcp.executor.decider import DecidedCall
from rye_mcp.receipts.statement import Element, RunFacts

__all__ = ["facts_of", "result_digest"]


def facts_of(decision: DecidedCall, variables: Iterable[str], agreed: str | None) -> RunFacts:
    """The facts of a call that is about to run."""
    verified, lock = decision.verified, decision.pinned.lock
    digests = _digests(verified.chain)
    return RunFacts(
        elements=tuple(
            Element(
                element.item_id,
                digest,
                item.digest,
                item.signer.kind.value,
                item.signer.key_id,
                element.version,
            )
            for (element, item), digest in zip(verified.pairs, digests, strict=True)
        ),
        files={printable(path): digest for path, digest in verified.carried.digests.items()},
        lock={"state": lock.state, "sha256": lock.digest},
        parameters=_encoded(decision.parameters.values),
        variables=tuple(sorted(map(printable, variables))),
        agreed=agreed,
    )


def result_digest(data: Any) -> str:
    """The SHA-256 of the data of what is no program, as JSON with sorted names."""
    return hashlib.sha256(_encoded(data)).hexdigest()


@once_a_chain
def _digests(chain: Chain) -> tuple[str, ...]:
    return tuple(hashlib.sha256(element.file.content).hexdigest() for element in chain.elements)


def _encoded(value: Any) -> bytes:
    try:
        return msgspec.json.encode(value, order="deterministic", enc_hook=repr)
    except (ValueError, OverflowError):  # half a character, or a number of more than 64 bits
        return json.dumps(value, sort_keys=True, default=repr).encode("ascii")
