"""The context of every verb: the spaces, the trust, and the caller.

The surface sets `caller`; no request can change it. Every item that a verb returns, copies or offers passes
`verify` first, which reads the role that its signer needs from the same bytes.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lilux._dataclasses import dataclass
from rye_mcp.errors import RyeError
from rye_mcp.executor.chain.builder import MetadataRole
from rye_mcp.executor.lock.skills import SkillLocks
from rye_mcp.items import ItemFile, ItemType, SpaceName, printable
from rye_mcp.metadata import ItemMetadata, parse_metadata
from rye_mcp.spaces import Spaces
from rye_mcp.trust.keys import KeyRing
from rye_mcp.trust.scope import SignerKind
from rye_mcp.trust.verify import Trust, VerifiedItem, verify_item

if TYPE_CHECKING:
    from rye_mcp.executor.caller import TraceContext
    from rye_mcp.executor.primitive_executor import PrimitiveExecutor
    from rye_mcp.executor.tree import InnerCall, OpenInside, Program

__all__ = ["Context", "options_of", "whole_hints"]


_SIGNS: Final = re.compile(r"\brye sign [\w./-]+(?: --(?:type|space) \w+)*(?![\w./-]| --)")


@dataclass(frozen=True, slots=True)
class Context:
    """The context of a verb. `ask_passphrase` is for callers with a person at a terminal.

    `project` is the directory that holds the project's `.ai`; `locked` says that nothing runs without a
    lockfile that it matches. `client` is the program that an agent came with, by its own account, `trace` the
    trace that it says the call belongs to. `open_inside` makes what serves programs, `program` is the one
    that asks, `call` what it asks for, and `agree` has a person agree to that. `record` has the answers of
    its calls before a person was asked, and `span` makes one of the trace for a call.
    """

    spaces: Spaces
    trust: Trust
    keys: KeyRing
    caller: SignerKind = SignerKind.AGENT
    ask_passphrase: Callable[[], bytes] | None = None
    project: Path | None = None
    locked: bool = False
    open_executor: Callable[[], PrimitiveExecutor] | None = None
    client: str | None = None
    trace: TraceContext | None = None
    open_inside: Callable[[Context], OpenInside] | None = None
    program: Program | None = None
    agree: Callable[[Any, Context, bool], Awaitable[Any]] | None = None
    record: Any = None
    span: Callable[[str], AbstractContextManager[TraceContext | None]] | None = None
    call: InnerCall | None = None

    @property
    def is_person(self) -> bool:
        """Whether a person asks, at a terminal or in a script of theirs, and no program of theirs."""
        return self.caller is SignerKind.PERSON and self.program is None

    def executor(self) -> PrimitiveExecutor:
        """The executor of tools; it is made on first use."""
        if self.open_executor is None:
            raise ValueError("expected a context that can run tools, found one without an executor")
        return self.open_executor()

    def verify(self, file: ItemFile) -> VerifiedItem:
        """The item, when it passes the gate, and a skill when it is as it is locked; RyeError otherwise."""
        with whole_hints(file), self.naming_project():
            verified = verify_item(file, self.trust, role=MetadataRole.of(file))
        if file.item_type is ItemType.SKILL:
            SkillLocks(self.spaces).require(verified)
        return verified

    @contextmanager
    def naming_project(self) -> Iterator[None]:
        """An agent is told the project in the command for changed content: a person runs it elsewhere."""
        try:
            yield
        except RyeError as exc:
            if exc.code == "content_changed" and not self.is_person and self.project is not None:
                option = f" --project {shlex.quote(printable(self.project))}"
                exc.hint = _SIGNS.sub(lambda found: found[0] + option, exc.hint)
            raise

    def metadata(self, verified: VerifiedItem) -> ItemMetadata:
        """Return the metadata of a verified item."""
        return parse_metadata(verified.file)


@contextmanager
def whole_hints(file: ItemFile) -> Iterator[None]:
    """Refusals of this item tell the whole command that signs it, with its type and its space."""
    try:
        yield
    except RyeError as exc:
        options = options_of(file.item_type, file.space.name)
        command = rf"\brye sign {re.escape(file.item_id)}(?=;|$)"
        exc.hint = re.sub(command, lambda found: found[0] + options, exc.hint)
        raise


def options_of(item_type: ItemType, space: SpaceName | None = None) -> str:
    """Return the options that a command needs besides an id: none for a tool of the project."""
    of_type = "" if item_type is ItemType.TOOL else f" --type {item_type}"
    return of_type + (" --space user" if space is SpaceName.USER else "")
