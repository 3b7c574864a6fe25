"""The statement of a receipt, in the form of in-toto; it says of each field how the value is known.

The predicate has three parts: `verified` is what rye-mcp hashed, checked or decided itself, `observed` is
what the kernel and the supervisor told it, `reported` is what somebody said. There are no values of
parameters, only a keyed digest of all of them. `docs/receipts.md` has every field.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import field
from datetime import timedelta
from typing import Any, Final

import msgspec

from lilux._dataclasses import dataclass
from rye_mcp.runs.chain import Link
from rye_mcp.runs.records import RunRecord

__all__ = ["MAX_FILES", "PREDICATE_TYPE", "STATEMENT_TYPE", "Element", "RunFacts", "row_digest", "statement"]

STATEMENT_TYPE: Final = "https://in-toto.io/Statement/v1"
"""The type of a statement in this form, as in-toto names it."""

PREDICATE_TYPE: Final = "urn:rye-mcp:run-receipt:v1"
"""The form of the predicate, with its version."""

MAX_FILES: Final = 64
"""Up to this many files that a tool brings along are named one by one; of more, there is one digest."""


@dataclass(frozen=True, slots=True)
class Element:
    """An item of the chain. `sha256` is that of the whole file, `signed_sha256` that of what was signed."""

    item_id: str
    sha256: str
    signed_sha256: str
    signer: str
    key_id: str | None
    version: str

    def as_dict(self) -> dict[str, Any]:
        """Return what was verified of it."""
        return {
            "item_id": self.item_id,
            "signed_sha256": self.signed_sha256,
            "signer": self.signer,
            "key_id": self.key_id,
        }


@dataclass(frozen=True, slots=True)
class RunFacts:
    """Facts for a receipt that are not in the log's row.

    `files` are those that the tool brings along, path → SHA-256. `lock` says how the chain compares with its
    lockfile. `variables` are names. `agreed` is the mark of what a person agreed to. `result` is the SHA-256
    of the data, for what is no program and has no output. `node` says on which other machine it ran, and
    what that says of the run.
    """

    elements: tuple[Element, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    lock: Mapping[str, Any] | None = None
    parameters: bytes | None = field(default=None, repr=False)
    variables: tuple[str, ...] = ()
    agreed: str | None = None
    result: str | None = None
    node: Mapping[str, Any] | None = None

    @property
    def node_says(self) -> bool:
        """Whether how the run ended is known from another machine alone."""
        return self.node is not None and "run_id" in self.node


def statement(
    record: RunRecord,
    row: Mapping[str, Any],
    link: Link,
    facts: RunFacts,
    *,
    parameters: str | None,
    node: str,
    server: str,
) -> bytes:
    """The statement as JSON. `parameters` is their keyed digest, `server` the version of this program."""
    predicate = {
        "verified": _verified(record, row, link, facts, parameters),
        "observed": {
            "node": node,
            "begun": record.begun.isoformat(timespec="milliseconds"),
            **({} if facts.node_says else _end(record)),
        },
        "reported": _reported(record, row, facts, server),
    }
    whole = {
        "_type": STATEMENT_TYPE,
        "subject": [_subject(name, digest) for name, digest in _subjects(record, facts)],
        "predicateType": PREDICATE_TYPE,
        "predicate": predicate,
    }
    return msgspec.json.encode(whole)


def row_digest(row: Mapping[str, Any]) -> str:
    """Return the digest that tells the row of a run from every other one."""
    return hashlib.sha256(msgspec.json.encode(row)).hexdigest()


def _subject(name: str, digest: str) -> dict[str, Any]:
    return {"name": name, "digest": {"sha256": digest}}


def _subjects(record: RunRecord, facts: RunFacts) -> Iterator[tuple[str, str]]:
    """Yield the subjects of the receipt. The run itself is one: a refused call has no other."""
    yield f"run:{record.run_id}", hashlib.sha256(record.run_id.encode("ascii")).hexdigest()
    yield from ((f"item:{each.item_id}", each.sha256) for each in facts.elements)
    if len(facts.files) <= MAX_FILES:
        yield from ((f"file:{path}", digest) for path, digest in facts.files.items())
    else:
        listed = msgspec.json.encode(sorted(facts.files.items()))
        yield f"files:{len(facts.files)}", hashlib.sha256(listed).hexdigest()
    yield from ((f"output:{stream}", digest) for stream, digest in record.digests)
    if facts.result is not None:
        yield "result", facts.result


def _verified(
    record: RunRecord, row: Mapping[str, Any], link: Link, facts: RunFacts, parameters: str | None
) -> dict[str, Any]:
    receipt: dict[str, Any] = {"number": link.number, "previous": link.previous}
    if link.broken is not None:
        receipt["broken"] = {"number": link.broken.number, "sha256": link.broken.digest}
    if link.unmarked:
        receipt["unmarked"] = True
    return {
        "receipt": receipt,
        "run_id": record.run_id,
        "parent": record.parent,
        "row_sha256": row_digest(row),
        "code": record.code,
        "chain": [each.as_dict() for each in facts.elements],
        "sealed": record.sealed and not facts.node_says,
        "lock": facts.lock,
        "parameters": {"names": msgspec.Raw(row["parameters"].encode()), "hmac_sha256": parameters},
        "variables": list(facts.variables),
        "agreed": facts.agreed,
    }


def _end(record: RunRecord) -> dict[str, Any]:
    """How a run ended, and what stood around it."""
    ended = record.begun + timedelta(milliseconds=record.duration_ms)
    return {
        "ended": ended.isoformat(timespec="milliseconds"),
        "exit": {"kind": record.kind, "return_code": record.return_code, "signal": record.signal},
        "usage": {
            "user_ms": record.user_ms,
            "system_ms": record.system_ms,
            "max_rss_kb": record.max_rss_kb,
        },
        "enforced": record.enforced,
        "runtime": record.runtime,
    }


def _reported(record: RunRecord, row: Mapping[str, Any], facts: RunFacts, server: str) -> dict[str, Any]:
    ran_on = dict(facts.node or {})
    if facts.node_says:
        ran_on |= {"sealed": record.sealed, **_end(record)}
    return {
        "item_id": row["item_id"],
        "versions": {each.item_id: each.version for each in facts.elements},
        "caller": row["caller"],
        "client": row.get("client"),
        "server": server,
        **({"ran_on": ran_on} if ran_on else {}),
    }
