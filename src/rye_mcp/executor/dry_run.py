"""What a prepared call tells about itself: names of variables, never their values."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lilux._dataclasses import dataclass
from rye_mcp.errors import RyeError, printable
from rye_mcp.executor.chain.builder import ChainElement
from rye_mcp.executor.elsewhere import Place
from rye_mcp.executor.job.enforcement import Enforceable
from rye_mcp.executor.job.jobs import ProcessJob
from rye_mcp.executor.job.starting import why_not_there
from rye_mcp.executor.lock.resolver import LockState
from rye_mcp.items import ItemPlace
from rye_mcp.notices import Notice
from rye_mcp.permissions import UNCONFINED, Permissions, sentence

if TYPE_CHECKING:
    from rye_mcp.executor.preparation import PreparedCall

__all__ = ["DryRun"]


@dataclass(frozen=True, slots=True)
class DryRun:
    """A planned run, and everything that was found out about it.

    `needs` are the required parameters that the caller has not given: their templates stand in the command
    as they are. `obstacle` is why the program could not be started, as far as that is known before. A call
    that runs on an engine has a `place`; all else is as this machine would do it, and the node decides again.
    """

    item_id: str
    chain: tuple[Mapping[str, Any], ...]
    validated_pairs: tuple[tuple[str, str], ...]
    shadowed: tuple[ItemPlace, ...]
    lock: LockState
    job: Mapping[str, Any]
    why_not_sealed: str | None
    notices: tuple[Notice, ...] = ()
    needs: tuple[str, ...] = ()
    obstacle: RyeError | None = None
    permissions: Permissions = UNCONFINED
    enforceable: Enforceable | None = None
    place: Place | None = None

    @classmethod
    def of(cls, call: PreparedCall, place: Place | None = None) -> DryRun:
        """Describe a prepared call; its private copy is gone afterwards, its paths too."""
        valid = call.decision.valid
        shown = call.job.shown()
        shown["command"] = [call.show(text) for text in shown["command"]]
        if shown["cwd"] is not None:
            shown["cwd"] = call.show(shown["cwd"])
        elements = valid.verified.chain.elements
        return cls(
            elements[0].item_id,
            call.decision.pinned.as_data(),
            valid.validated_pairs,
            tuple(place for element in elements for place in element.shadowed),
            call.decision.pinned.lock,
            shown,
            call.why_not_sealed,
            call.notices,
            call.decision.parameters.needs,
            _obstacle(call, elements[0], is_elsewhere=place is not None),
            call.decision.permissions,
            call.enforceable if place is None else None,
            place,
        )

    @property
    def sealed(self) -> bool:
        """Whether nothing but what was verified would run."""
        return self.why_not_sealed is None

    def facts(self) -> dict[str, str]:
        """Return the facts for a person, a line each."""
        job = self.job
        seconds = job["timeout"]
        place = self.place
        return {
            **({} if place is None else {"runs on": f"{place.engine}, which leads to {place.leads_to}"}),
            "command": shlex.join(job["command"]),
            "directory": job["cwd"] or "-",
            "time": "no limit" if seconds is None else f"{seconds:g} s",
            "variables": f"{len(job['environment'])}, by name with --json",
            "lock": self.lock.state,
            "sealed": "yes" if self.sealed else f"no: {self.why_not_sealed}",
            "permissions": sentence(self.permissions),
            **({} if self.enforceable is None else {"enforced by": self.enforceable.in_words}),
        }

    def as_dict(self, *, detail: bool = False) -> dict[str, Any]:
        """Return it as data, with all detail: that is the purpose of a dry run."""
        place = self.place
        return {
            "status": "validation_passed",
            "item_id": self.item_id,
            "chain": [dict(element) for element in self.chain],
            "validated_pairs": [list(pair) for pair in self.validated_pairs],
            "shadowed": [
                {"space": place.space.name.value, "path": printable(place.path)} for place in self.shadowed
            ],
            "lock": self.lock.as_dict(),
            **self.job,
            "sealed": self.sealed,
            **({} if self.sealed else {"why_not_sealed": self.why_not_sealed}),
            "permissions": self.permissions.canonical(),
            **({} if self.enforceable is None else {"enforceable": self.enforceable.as_dict()}),
            **({} if place is None else {"runs_on": {"engine": place.engine, "leads_to": place.leads_to}}),
            "notices": [notice.as_dict() for notice in self.notices],
        }


def _obstacle(call: PreparedCall, root: ChainElement, *, is_elsewhere: bool) -> RyeError | None:
    """Nobody has agreed to what it may do, or the program is not there, where it would run on this machine.

    What a parameter will name cannot be looked for yet.
    """
    try:
        call.decision.require_agreed(None)
    except RyeError as exc:
        return exc
    if is_elsewhere or not isinstance(call.job, ProcessJob):
        return None
    spec = call.job.process.whole()
    if call.decision.parameters.needs and "{" in spec.command:
        return None
    missing = why_not_there(spec)
    if missing is None:
        return None
    return RyeError("spawn_failed", call.show(missing.sentence), hint=missing.hint, item_id=root.item_id)
