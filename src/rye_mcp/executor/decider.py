"""Decides a call: stages 1 to 7, from an id or from a bundle. Nothing is made or started here.

decision = await decider.decide("demo/hello", {"name": "Ada"}, Caller())
again = await elsewhere.accept(Bundle.from_bytes(decision.bundle().to_bytes()))
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from lilux._dataclasses import dataclass
from lilux._footprints import Remembered
from lilux.primitives.errors import LockfileError
from lilux.primitives.lockfile import Lockfile
from rye_mcp import package_version
from rye_mcp.apart import off_loop
from rye_mcp.configuration import code_policy, isolation_of
from rye_mcp.errors import RyeError
from rye_mcp.executor.bundle import Bundle, BundleSpaces
from rye_mcp.executor.caller import Caller
from rye_mcp.executor.chain.builder import Chain, ChainBuilder, ChainElement
from rye_mcp.executor.chain.validator import ValidChain, require_valid
from rye_mcp.executor.chain.verifier import IntegrityVerifier, VerifiedChain
from rye_mcp.executor.configuration.parameters import Parameters, checked_parameters, with_results
from rye_mcp.executor.lock import pins
from rye_mcp.executor.lock.agreement import Comparison, Preview, require_agreed
from rye_mcp.executor.lock.resolver import LockfileResolver, PinnedChain
from rye_mcp.executor.tree import require_within_approval
from rye_mcp.items import SpaceName
from rye_mcp.notices import Notice
from rye_mcp.permissions import UNCONFINED, Isolation, Permissions, Requirement, effective, phrases
from rye_mcp.runs.results import KeptResults
from rye_mcp.spaces import Spaces
from rye_mcp.trust.scope import SignerKind
from rye_mcp.trust.verify import Trust, VerifiedItem

if TYPE_CHECKING:
    from rye_mcp.configuration import CodePolicy
    from rye_mcp.executor.tree import Program

__all__ = [
    "RUNNERS",
    "SAVER",
    "Decide",
    "DecidedCall",
    "Decider",
    "granted",
    "is_runner",
    "is_saver",
    "named_calls",
    "require_allowed",
    "require_switched_on",
]

_GRANTING: Final = frozenset({SignerKind.PERSON, SignerKind.SYSTEM})
_BUNDLE: Final = Path("bundle")

_MAX_REMEMBERED: Final = 256
_MAX_REMEMBERED_BYTES: Final = 256 << 10
"""How many chains are remembered with their verdict, and how long the files of one may be for that."""


_BRIDGE: Final = "rye/core/primitives/mcp_client"
_BRIDGED_PROGRAM: Final = "rye/core/runtimes/mcp_stdio_runtime"
_NOT_CONFINED: Final = (
    "nothing confines the server {server}, whose items are older than permissions; to confine it: "
    "rye mcp update {server} --project-access write --net any"
)


@dataclass(frozen=True, slots=True)
class DecidedCall:
    """A call that may be done: its chain is authentic, valid and pinned, and its parameters fit."""

    pinned: PinnedChain
    parameters: Parameters = field(repr=False)
    permissions: Permissions
    caller: Caller
    timeout: float | None = None
    notices: tuple[Notice, ...] = ()
    comparison: Comparison = field(default_factory=Comparison)
    permitted_env: frozenset[str] = frozenset()
    """Variables that look like secrets, and that the tool gets all the same."""
    isolation: Isolation = field(default_factory=Isolation)

    @property
    def valid(self) -> ValidChain:
        """The chain, with what was found out about its neighbours."""
        return self.pinned.valid

    @property
    def verified(self) -> VerifiedChain:
        """The chain, with who vouches for its elements and the files that it brings along."""
        return self.pinned.valid.verified

    @property
    def chain(self) -> Chain:
        """The chain itself."""
        return self.pinned.valid.verified.chain

    def preview(self) -> Preview:
        """Return the preview that somebody can agree to."""
        return Preview.of(self.valid, self.parameters, self.permissions, self.comparison.widened)

    def require_agreed(self, mark: str | None) -> None:
        """Refuse what is not what was agreed to; RyeError."""
        require_agreed(self.valid, self.permissions, self.comparison.widened, mark)

    @property
    def secrets(self) -> frozenset[str]:
        """The secrets of the user's store that the run gets: what a person's tool names.

        What a runtime names is left out, because the tool of an agent can be on top of it.
        """
        is_persons = self.verified.root.signer.kind is SignerKind.PERSON
        return frozenset(self.chain.root.metadata.named_secrets if is_persons else ())

    @property
    def calls(self) -> frozenset[str]:
        """The tools that the run may call: what its signed file names, whatever confines the run itself."""
        if is_runner(self.chain.root):
            return self.permissions.calls
        declared = self.chain.root.metadata.permissions
        return frozenset() if declared is None else declared.calls

    @property
    def approval(self) -> Permissions:
        """The most that the tools it calls may do: an agent's program gets no further by calling."""
        is_agents = self.verified.root.signer.kind is SignerKind.AGENT
        return self.isolation.agent if is_agents else UNCONFINED

    @property
    def asked_for(self) -> Permissions:
        """The rights of the tool itself, without those that its runtimes add; calls are judged one by one."""
        if self.permissions.unconfined:
            return UNCONFINED
        declared = self.chain.root.metadata.permissions or Permissions()
        own = self.permissions.meet(replace(declared, project=self.permissions.project))
        return replace(own, net=self.permissions.net, calls=frozenset(), require=Requirement.NONE)

    def unrestricted(self) -> DecidedCall:
        """The same call, not confined: for learning what it needs, under a policy that only observes."""
        return self if is_runner(self.chain.root) else replace(self, permissions=UNCONFINED)

    @property
    def works_on_files(self) -> bool:
        """Whether its tool has a workspace with files that nobody signed."""
        return self.chain.root.metadata.workspace not in (None, "none")

    def bundle(self) -> Bundle:
        """The call as a value that can be sent elsewhere."""
        return Bundle.of(
            self.pinned,
            self.parameters.values,
            self.permissions,
            self.caller,
            package=package_version(),
            timeout=self.timeout,
        )


Decide = Callable[[], Awaitable[DecidedCall]]
"""Decides one call."""


Rights = tuple[Permissions, frozenset[str], tuple[Notice, ...]]
"""What a chain may do, which variables it gets, and a notice for each wish that was ignored."""


@dataclass(frozen=True, slots=True)
class _Judged:
    """A chain after stages 1 to 6, without parameters; `rights` under the policy of its last call."""

    pinned: PinnedChain
    comparison: Comparison
    rights: list[tuple[Isolation, Rights]] = field(default_factory=list, compare=False, repr=False)

    def rights_under(self, isolation: Isolation) -> Rights:
        """What the chain may do, found out again when the policy is another one."""
        for policy, rights in self.rights:
            if policy is isolation:
                return rights
        rights = granted(tuple(self.pinned.valid.verified.pairs), isolation)
        self.rights[:] = [(isolation, rights)]
        return rights

    @property
    def rests_on_files(self) -> bool:
        """Whether it is the same until a file changes that was looked at, and small enough to be remembered.

        The files of a skill are looked at in another way. A chain that nobody has agreed to yet, or that
        takes code from the whole project, also depends on what a person decides.
        """
        verified = self.pinned.valid.verified
        is_settled = verified.carried.sealed and self.comparison == Comparison()
        size = sum(len(file.content) for file in verified.carried.files)
        return is_settled and verified.chain.root.metadata.skill is None and size <= _MAX_REMEMBERED_BYTES


class Decider:
    """Decides the calls of one project, or of none, by what one user trusts."""

    def __init__(
        self,
        spaces: Spaces,
        trust: Trust,
        project: Path | None,
        locks: LockfileResolver,
        results: KeptResults,
    ) -> None:
        self.verifier = IntegrityVerifier(trust, project)
        self.builder = ChainBuilder(spaces, self.verifier.require_verified, remembers=True)
        self.spaces = spaces
        self.trust = trust
        self._project = project
        self._locks = locks
        self._results = results
        self._judged: Remembered[_Judged] = Remembered(
            most=_MAX_REMEMBERED, worth=lambda judged: judged.rests_on_files
        )

    async def decide(
        self,
        item_id: str,
        parameters: Mapping[str, Any] | None,
        caller: Caller,
        *,
        timeout: float | None = None,
        validate_chain: bool = True,
        use_lockfile: bool = True,
        sketched: bool = False,
    ) -> DecidedCall:
        """The call of a tool on this machine, to be looked at only; RyeError if it is refused.

        Whether somebody has to agree to it first, `settled` says.
        """

        def work() -> tuple[_Judged, Isolation]:
            judged = self._judge(item_id, validate_chain=validate_chain, use_lockfile=use_lockfile)
            return judged, isolation_of(self)

        judged, isolation = await off_loop(work)
        root = judged.pinned.valid.verified.chain.root
        values = await with_results(root, parameters, self._results)
        return await _decided(judged, isolation, values, caller, timeout, sketched=sketched)

    async def settled(self, decided: DecidedCall, agreed: str | None = None) -> DecidedCall:
        """The same call, to be carried out: a person has agreed to what it may do; RyeError otherwise.

        `agreed` is the mark of what a person was asked about. A state directory that cannot be written stops
        nobody: then the same is asked again.
        """
        if is_runner(decided.chain.root):
            require_allowed(decided, await off_loop(partial(code_policy, self)), agreed)
        require_within_approval(decided)
        decided.require_agreed(agreed)
        if decided.comparison.new:
            with suppress(RyeError, OSError):
                await off_loop(partial(decided.comparison.keep, self.trust))
        return decided

    async def accept(self, bundle: Bundle, granted: Permissions | None = None) -> DecidedCall:
        """The call of a bundle, which passes the same stages here; it may do no more than there.

        `granted` narrows that further.
        """

        def work() -> tuple[_Judged, Isolation]:
            return self._judged_again(bundle), isolation_of(self)

        judged, isolation = await off_loop(work)
        found = await _decided(judged, isolation, bundle.parameters, bundle.caller, bundle.timeout)
        there = bundle.permissions if granted is None else bundle.permissions.meet(granted)
        env = found.permitted_env if there.unconfined else found.permitted_env & there.env
        narrowed = replace(found, permissions=found.permissions.meet(there), permitted_env=env)
        return await self.settled(narrowed)

    def _judge(self, item_id: str, *, validate_chain: bool, use_lockfile: bool) -> _Judged:
        """Stages 1 to 6, of files on the disk; remembered until a file changes that one of them looked at."""

        def work() -> _Judged:
            stages = (self.builder, self.verifier)
            return self._through(item_id, *stages, validate_chain=validate_chain, use_lockfile=use_lockfile)

        if not self.builder.remembers:
            return work()
        # Whether an approval is in force is said by the modes of all directories above the project, too.
        approvals = self.trust.approvals
        decided_in = None if approvals is None else approvals.project
        return self._judged.value((item_id, validate_chain, use_lockfile, decided_in), work)

    def _through(
        self,
        item_id: str,
        builder: ChainBuilder,
        verifier: IntegrityVerifier,
        *,
        validate_chain: bool = True,
        use_lockfile: bool = True,
    ) -> _Judged:
        root = builder.find(item_id)
        root_lock = self._locks.check_root(root, use_lockfile=use_lockfile)
        chain = builder.follow(root)
        verified = verifier.verify_chain(chain)
        valid = require_valid(verified, everything=validate_chain)
        return _Judged(self._locks.pin(valid, root_lock), Comparison.of(verified, self.trust))

    def _judged_again(self, bundle: Bundle) -> _Judged:
        """The same stages, of the files of a bundle, which is also what its own lockfile says.

        It is remembered by the files of the bundle until one of this machine changes that a stage looked at.
        """

        def work() -> _Judged:
            spaces = BundleSpaces(bundle, self.spaces)
            verifier = IntegrityVerifier(self.trust, self._project, spaces.open_tree)
            builder = ChainBuilder(spaces, verifier.require_verified)
            judged = self._through(bundle.item_id, builder, verifier)
            _require_pinned(judged.pinned.valid, bundle)
            return judged

        try:
            if bundle.size > _MAX_REMEMBERED_BYTES:
                return work()
            return self._judged.value(bundle.unchanging, work)
        except RyeError as exc:
            if bundle.package != package_version():
                exc.hint = f"the bundle was made by rye-mcp {bundle.package}, this is {package_version()}"
            raise


def _require_pinned(valid: ValidChain, bundle: Bundle) -> None:
    item_id = valid.verified.chain.root.item_id
    try:
        lockfile = Lockfile.from_bytes(bundle.lock)
    except LockfileError as exc:
        raise RyeError("malformed_lockfile", "expected a lockfile in a bundle, found none") from exc
    if issues := pins.issues_in(lockfile):
        what = f"expected a lockfile in a bundle, found one that is malformed: {issues[0]}"
        raise RyeError("malformed_lockfile", what, item_id=item_id)
    found = pins.differences(pins.Pins.of_lockfile(lockfile), pins.Pins.of_chain(valid))
    if found:
        raise pins.mismatch(found, item_id, _BUNDLE)


async def _decided(
    judged: _Judged,
    isolation: Isolation,
    parameters: Mapping[str, Any] | None,
    caller: Caller,
    timeout: float | None,
    *,
    sketched: bool = False,
) -> DecidedCall:
    """Stage 7, and what the chain may do."""
    pinned, comparison = judged.pinned, judged.comparison
    values = await checked_parameters(pinned.valid.verified.chain.root, parameters, sketched=sketched)
    permissions, env, ignored = judged.rights_under(isolation)
    if is_runner(pinned.valid.verified.chain.root) and not permissions.unconfined:
        permissions = replace(permissions, calls=named_calls(values, caller.program))
    notices = (
        *(Notice("chain_warning", warning) for warning in pinned.valid.warnings),
        *pinned.notices,
        *values.notices,
        *pinned.valid.verified.carried.notices,
        *ignored,
        *_not_enforced(pinned.valid.verified.chain.root),
    )
    return DecidedCall(pinned, values, permissions, caller, timeout, notices, comparison, env, isolation)


def _not_enforced(root: ChainElement) -> Iterator[Notice]:
    """What is said of the machine, and what nothing holds the run to."""
    if root.metadata.resources is not None:
        what = f"{root.item_id} says which resources it needs; nothing here limits it to them"
        yield Notice("resources_not_enforced", what)


def granted(pairs: Sequence[tuple[ChainElement, VerifiedItem]], isolation: Isolation) -> Rights:
    """Return the rights of a chain, the variables it gets, and a notice for each wish that was ignored.

    RyeError `denied_by_policy` for what the policy lets run in no way.
    """
    names, needs, ignored = _wished(pairs)
    (root, item_of_root), primitive = pairs[0], pairs[-1][0]
    kind = item_of_root.signer.kind
    declared = root.metadata.permissions
    if kind is SignerKind.PERSON and primitive.item_id == _BRIDGE and _is_older_than_permissions(declared):
        declared = None
    found = effective(declared, kind, isolation, item_id=root.item_id, needs=needs)
    permissions = found.permissions
    if permissions.unconfined and declared is None and root.executor_id == _BRIDGED_PROGRAM:
        server = PurePosixPath(root.item_id).parent.name
        ignored.append(Notice("not_confined", _NOT_CONFINED.format(server=server)))
    if not permissions.unconfined:
        permissions = replace(permissions, env=names)
    beyond = tuple(phrases(replace(found.withheld, env=frozenset())))
    if kind is SignerKind.AGENT and beyond:
        ignored.append(_only_an_agent_signed(root, f"declares that it {'; '.join(beyond)}"))
    return permissions, names, tuple(ignored)


def _wished(
    pairs: Sequence[tuple[ChainElement, VerifiedItem]],
) -> tuple[frozenset[str], Permissions, list[Notice]]:
    """Return the variables and paths that a chain asks for, and a notice for each wish of an agent."""
    names: set[str] = set()
    needs = Permissions()
    ignored = []
    for element, item in pairs:
        asked = element.metadata.permitted_env
        if item.signer.kind in _GRANTING:
            names.update(asked)
            if element is not pairs[0][0] and element.metadata.needs is not None:
                needs = needs.join(element.metadata.needs)
        elif asked:
            ignored.append(_only_an_agent_signed(element, f"asks for {', '.join(asked)}"))
    return frozenset(names), needs, ignored


def _only_an_agent_signed(element: ChainElement, does: str) -> Notice:
    item_id = element.item_id
    what = f"{item_id} {does}, and only an agent signed it"
    return Notice(
        "permissions_ignored", f"{what}; a person who has read it signs it with: rye sign {item_id}"
    )


def _is_older_than_permissions(declared: Permissions | None) -> bool:
    """Whether an item of a bridged server names variables alone, as all of them did before permissions."""
    return declared is not None and declared.names_env_alone


# --- rye/code/run ---
# Programs that agents write: what holds for the tools that run them, beside what holds for every tool.
#
# Each of them is of the system space, and gets its source, and what it may call, as parameters. It runs only
# where the user's policy (`code`) has switched it on, always confined, and calls nothing but what is named.
# What it calls is judged as if its caller had called it.


RUNNERS: Final = frozenset({"rye/code/run", "rye/code/run_node"})
"""The tools that run a program: one in Python, one in JavaScript."""

SAVER: Final = "rye/code/save"
"""The tool that makes an item of a program."""


def is_runner(root: ChainElement) -> bool:
    """Whether a tool is one of the system space that runs programs."""
    return root.item_id in RUNNERS and root.space is SpaceName.SYSTEM


def is_saver(root: ChainElement) -> bool:
    """Whether a tool is the one of the system space that saves programs: for it alone somebody is asked."""
    return root.item_id == SAVER and root.space is SpaceName.SYSTEM


def named_calls(parameters: Parameters, caller: Program | None) -> frozenset[str]:
    """Return the calls that a caller allows a program; a calling program grants at most its own."""
    found = parameters.values.get("calls")
    named = Permissions(calls=frozenset(found) if isinstance(found, list) else frozenset())
    return (named if caller is None else named.meet(Permissions(calls=caller.calls))).calls


def require_switched_on(item_id: str, policy: CodePolicy) -> None:
    """RyeError `code_switched_off` where the policy has not switched programs on."""
    if policy == "off":
        what = f"expected a policy with code: ask or code: on for {item_id}, found that it is off"
        raise RyeError("code_switched_off", what, item_id=item_id)


def require_allowed(decided: DecidedCall, policy: CodePolicy, agreed: str | None) -> None:
    """RyeError for a program that the policy, or this machine, does not let run as it is."""
    item_id = decided.chain.root.item_id
    require_switched_on(item_id, policy)
    if policy == "ask" and decided.caller.kind == "agent" and agreed is None:
        what = f"expected a person to agree to the program of {item_id}, found that nobody was asked"
        raise RyeError("confirmation_required", what, item_id=item_id)
    if decided.permissions.unconfined or decided.permissions.require < Requirement.WALLS:
        what = f"expected {item_id} to run confined, found a policy that lifts its permissions"
        hint = f"leave {item_id} out of isolation.lift in config/rye.yaml"
        raise RyeError("isolation_unavailable", what, hint=hint, item_id=item_id)
