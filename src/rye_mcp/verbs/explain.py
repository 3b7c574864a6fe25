"""`explain`: what would run a tool, element by element, and what prevents it; nothing runs.

Every element is examined by itself. Refusals come from the stages of a call. A person is also shown what
unverified files say; an agent is only told that an element is refused, and why.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from functools import partial
from itertools import takewhile
from typing import Any, Final

from lilux._dataclasses import dataclass
from rye_mcp.errors import RyeError
from rye_mcp.executor.chain.builder import ChainBuilder, ChainElement, ChainError
from rye_mcp.executor.chain.verifier import roles_in
from rye_mcp.executor.configuration.parameters import UnfilledError
from rye_mcp.executor.dry_run import DryRun
from rye_mcp.executor.tree import MAX_CALL_DEPTH
from rye_mcp.items import ItemFile, ItemType, printable
from rye_mcp.notices import present
from rye_mcp.permissions import sentence, taken_to_declare
from rye_mcp.secret_store import SecretStore
from rye_mcp.trust.scope import SignerKind
from rye_mcp.trust.verify import RoleOf, verify_item
from rye_mcp.verbs._answers import Integrity
from rye_mcp.verbs.context import Context, whole_hints

__all__ = ["Callee", "ExplainRequest", "Explained", "Explanation", "callees", "explain"]


@dataclass(frozen=True, slots=True)
class ExplainRequest:
    """A tool, and parameters for it; without any, the required ones are listed."""

    item_id: str
    parameters: Mapping[str, Any] | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Explained:
    """One element of a chain, and whether it passes the gate in its place; `told` by itself, or not."""

    element: ChainElement
    integrity: Integrity
    told: bool = True

    def as_dict(self) -> dict[str, Any]:
        """Return it as data."""
        element = self.element
        if not self.told:
            known = {"item_id": element.item_id, "space": element.space.value}
            return {**known, "integrity": self.integrity.as_dict()}
        answer: dict[str, Any] = {
            "item_id": element.item_id,
            "space": element.space.value,
            "path": printable(element.path),
            "version": element.version,
            "tool_type": element.metadata.tool_type,
            "executor_id": element.executor_id,
            "integrity": self.integrity.as_dict(),
        }
        if element.shadowed:
            answer["shadows"] = [
                {"space": place.space.name.value, "path": printable(place.path)} for place in element.shadowed
            ]
        return answer


@dataclass(frozen=True, slots=True)
class Explanation:
    """A chain as far as it goes; then what would run, or why nothing would, or both.

    `needs` are the parameters without which nothing runs, where none were given.
    """

    item_id: str
    chain: tuple[Explained, ...]
    call: DryRun | None = None
    refusal: RyeError | None = None
    needs: tuple[str, ...] = ()
    secrets: Mapping[str, bool] = field(default_factory=dict)
    """The secrets that the tool gets, and whether there is one of that name."""
    calls: tuple[Callee, ...] = ()
    """The tools that it may call, if it is a program."""

    @property
    def declares(self) -> str | None:
        """The declared permissions in words; None when the tool declares none, or may not be described."""
        permissions = self.chain[0].element.metadata.permissions if self.chain[0].told else None
        return None if permissions is None else sentence(permissions)

    def as_dict(self) -> dict[str, Any]:
        """Return it as data."""
        answer: dict[str, Any] = {
            "status": "success",
            "item_id": self.item_id,
            "runs": self.refusal is None,
            "declares": self.declares,
            "chain": [each.as_dict() for each in self.chain],
        }
        answer |= present(
            secrets=dict(self.secrets),
            calls=[each.as_dict() for each in self.calls],
            needs=[printable(name) for name in self.needs],
        )
        if self.refusal is not None:
            answer["refusal"] = {k: v for k, v in self.refusal.as_dict().items() if k != "status"}
        if self.call is not None:
            call = self.call.as_dict()
            answer["call"] = {name: call[name] for name in call if name not in ("status", "chain", "item_id")}
        return answer


async def explain(request: ExplainRequest, context: Context) -> Explanation:
    """Explain what would run a tool.

    1. the chain, as far as it goes, trusted or not
    2. each element at the gate
    3. all the stages of a call, up to the last one
    """
    elements = _elements(request.item_id, context)
    chain = tuple(
        Explained(element, _integrity(element.file, role, context))
        for element, role in zip(elements, roles_in(elements), strict=True)
    )
    chain = chain if context.is_person else _for_an_agent(chain)
    secrets, calls = _secrets(chain[0], context), _calls(chain[0], context)
    explain_as = partial(Explanation, elements[0].item_id, chain, secrets=secrets, calls=calls)
    try:
        call = await context.executor().outlook(request.item_id, request.parameters)
    except UnfilledError as exc:
        return explain_as(needs=exc.needs)
    except RyeError as exc:
        return explain_as(refusal=exc)
    return explain_as(call, call.obstacle, call.needs)


def _calls(root: Explained, context: Context) -> tuple[Callee, ...]:
    """Return the tools that the signed file of a program names; nothing of one that was not verified."""
    permissions = root.element.metadata.permissions
    if permissions is None or root.integrity.refusal is not None:
        return ()
    return callees(permissions.calls, context)


def _secrets(root: Explained, context: Context) -> dict[str, bool]:
    """Return the secrets that the tool gets from the user's store: only those that a person signed for."""
    signer, names = root.integrity.signer, root.element.metadata.named_secrets
    if not names or signer is None or signer.kind is not SignerKind.PERSON:
        return {}
    lacking = SecretStore(context.spaces.user.root).lacking(names)
    return {name: name not in lacking for name in names}


def _for_an_agent(chain: tuple[Explained, ...]) -> tuple[Explained, ...]:
    """The chain up to the first element that is refused; of that element only the refusal is shown."""
    passed = tuple(takewhile(lambda each: each.integrity.refusal is None, chain))
    return (*passed, *(replace(each, told=False) for each in chain[len(passed) : len(passed) + 1]))


def _elements(item_id: str, context: Context) -> tuple[ChainElement, ...]:
    # What is wrong with a file is told in its own words, to an agent only once it has passed the gate.
    gate = _no_gate if context.is_person else context.verify
    builder = ChainBuilder(context.spaces, gate)
    root = builder.find(item_id)
    try:
        return builder.follow(root).elements
    except ChainError as exc:
        return exc.elements
    except RyeError:
        return (root,)  # two files for one executor, say; the stages of a call tell it


def _no_gate(file: ItemFile) -> ItemFile:
    return file


def _integrity(file: ItemFile, role: RoleOf, context: Context) -> Integrity:
    try:
        with whole_hints(file):
            return Integrity.of(verify_item(file, context.trust, role=role))
    except RyeError as exc:
        return Integrity(refusal=exc)


# --- what it calls ---


MAX_SHOWN: Final = 100
"""How many tools are shown at most."""

_PATTERN: Final = "a pattern"
_AGAIN: Final = "as above"
_MORE: Final = "not shown"


@dataclass(frozen=True, slots=True)
class Callee:
    """A tool, or a pattern, that a program may call; `state` is `verified`, or why nothing is told of it."""

    item_id: str
    state: str
    may: str | None = None
    calls: tuple[Callee, ...] = ()

    @property
    def is_refused(self) -> bool:
        """Whether a call would be refused as things are."""
        return self.may is None and self.state not in (_PATTERN, _AGAIN, _MORE)

    @property
    def in_words(self) -> str:
        """The tool, and what it may do."""
        return f"{self.item_id}: {self.may or self.state}"

    def as_dict(self) -> dict[str, Any]:
        """Return it as data."""
        answer: dict[str, Any] = {"item_id": self.item_id, "state": self.state}
        if self.may is not None:
            answer["declares"] = self.may
        if self.calls:
            answer["calls"] = [each.as_dict() for each in self.calls]
        return answer


def callees(calls: frozenset[str], context: Context) -> tuple[Callee, ...]:
    """The tools that stand in `permissions.calls`, each with those that it may call itself."""
    return tuple(_Look(context).below(calls, depth=1))


class _Look:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._shown: set[str] = set()

    def below(self, calls: frozenset[str], *, depth: int) -> Iterator[Callee]:
        for item_id in sorted(calls):
            if item_id.endswith("/*"):
                yield Callee(item_id, _PATTERN)
            elif item_id in self._shown:
                yield Callee(item_id, _AGAIN)
            elif len(self._shown) >= MAX_SHOWN or depth > MAX_CALL_DEPTH:
                yield Callee(item_id, _MORE)
            else:
                self._shown.add(item_id)
                yield self._one(item_id, depth)

    def _one(self, item_id: str, depth: int) -> Callee:
        try:
            verified = self._context.verify(self._context.spaces.find(item_id, ItemType.TOOL).item)
            declared = self._context.metadata(verified).permissions
        except RyeError as exc:
            return Callee(item_id, exc.code)
        may = sentence(taken_to_declare(declared, verified.signer.kind))
        calls = frozenset() if declared is None else declared.calls
        return Callee(item_id, "verified", may, tuple(self.below(calls, depth=depth + 1)))
