"""Execution, as a recipe: decide a call, prepare it, run it, and record its result.

`run` and `dry_run` raise a RyeError for what is refused before anything runs; how a run ended, even badly,
is a result. `execute` returns refusals as results too.

    executor = PrimitiveExecutor(project_path="/work/project")
    result = await executor.execute("demo/hello", {"name": "Ada"})
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from lilux._dataclasses import dataclass
from rye_mcp.apart import in_one_trip, off_loop
from rye_mcp.errors import RyeError, printable
from rye_mcp.executor.admission import admitted
from rye_mcp.executor.bundle import Bundle
from rye_mcp.executor.caller import Caller
from rye_mcp.executor.chain.builder import Chain
from rye_mcp.executor.chain.companions import missing_companion
from rye_mcp.executor.decider import Decide, DecidedCall, Decider
from rye_mcp.executor.dry_run import DryRun
from rye_mcp.executor.elsewhere import Engines, Place, Placed, retried, run_elsewhere
from rye_mcp.executor.job.jobs import Job, ProcessJob, Watch
from rye_mcp.executor.job.output_files import kept_files
from rye_mcp.executor.job.primitives import PRIMITIVE_MAP, Primitives, Surroundings
from rye_mcp.executor.job.under_way import UNDER_WAY
from rye_mcp.executor.lock.agreement import Preview
from rye_mcp.executor.lock.resolver import LockfileResolver
from rye_mcp.executor.logged_call import LoggedCall
from rye_mcp.executor.preparation import Preparation, PreparedCall
from rye_mcp.executor.results import ExecutionResult, Outcome
from rye_mcp.executor.tree import Program
from rye_mcp.executor.workspace import tree_of
from rye_mcp.items import SpaceName
from rye_mcp.notices import Notice
from rye_mcp.own_directories import state_directory
from rye_mcp.receipts.runner import RunnerNotary
from rye_mcp.runs.ids import StreamName
from rye_mcp.runs.live import YOUNG_S, LiveRun, LiveRuns
from rye_mcp.runs.log import RunLog
from rye_mcp.runs.outputs import RunOutputs
from rye_mcp.runs.results import Kept, KeptResults, is_result_handle, owner_of
from rye_mcp.runs.shelf import Shelf
from rye_mcp.secret_store import SecretStore
from rye_mcp.spaces import Spaces
from rye_mcp.trust.scope import SignerKind
from rye_mcp.trust.verify import Trust

if TYPE_CHECKING:
    from lilux.primitives.subprocess import Enforced, Spool
    from rye_mcp.executor.job.planted import Missing
    from rye_mcp.permissions import Permissions
    from rye_mcp.runs.records import RunRecord

__all__ = ["WARM_VARIABLE", "PrimitiveExecutor", "Watch"]

WARM_VARIABLE: Final = "RYE_WARM"
"""With `0`, no interpreter waits for a call."""


class PrimitiveExecutor:
    """Executes the tools of one project, or of none, for one user. It may be used from any event loop."""

    PRIMITIVE_MAP: ClassVar[Mapping[str, type[Any]]] = PRIMITIVE_MAP

    def __init__(
        self,
        project_path: str | os.PathLike[str] | None = None,
        user_space: str | os.PathLike[str] | None = None,
        system_space: str | os.PathLike[str] | None = None,
        *,
        state: Path | None = None,
        locked: bool = False,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """`project_path` and `user_space` are the directories that hold an `.ai`; `system_space` is one."""
        variables = os.environ if environment is None else environment
        project = None if project_path is None else Path(os.path.realpath(project_path))
        user = user_space or variables.get("USER_SPACE")
        spaces = Spaces.locate(
            project,
            user=None if user is None else Path(user),
            system=None if system_space is None else Path(system_space),
            private={"your decisions, logs and outputs": state or state_directory()},
        )
        if project is not None:
            spaces.require_project()
        trust = Trust(
            user_space=spaces.user.root,
            project=project,
            system_space=spaces.system.root,
            state=state,
            environment=variables,
        )
        self._wire(spaces, trust, project, state, locked=locked, environment=variables)

    @classmethod
    def of(
        cls,
        spaces: Spaces,
        trust: Trust,
        *,
        project: Path | None,
        state: Path,
        locked: bool,
        environment: Mapping[str, str],
        writes_locks: Callable[[SpaceName], bool],
        why_cold: Callable[[], str | None] = lambda: "off",
        open_engines: Callable[[], Engines] | None = None,
        tell: Callable[[RunRecord], object] | None = None,
    ) -> Self:
        """One that is made of parts that are there already.

        `writes_locks` says in which spaces a successful run of a tool writes a lockfile, `why_cold` why
        no interpreter may wait for calls, if none may. `open_engines` is called for the first tool that may
        run elsewhere, `tell` for each row of the log.
        """
        executor = cls.__new__(cls)
        executor._wire(
            spaces,
            trust,
            project,
            state,
            locked=locked,
            environment=environment,
            writes_locks=writes_locks,
            why_cold=why_cold,
            tell=tell,
        )
        executor._open_engines = open_engines
        return executor

    def _wire(
        self,
        spaces: Spaces,
        trust: Trust,
        project: Path | None,
        state: Path | None,
        *,
        locked: bool,
        environment: Mapping[str, str],
        writes_locks: Callable[[SpaceName], bool] = lambda space: True,
        why_cold: Callable[[], str | None] = lambda: None,
        tell: Callable[[RunRecord], object] | None = None,
    ) -> None:
        where = state or state_directory()
        self._open_engines: Callable[[], Engines] | None = None
        self._engines: Engines | None = None
        project = None if spaces.project is None else project
        self._project = project
        self._locks = LockfileResolver(
            spaces, trust, package_version=version("rye-mcp"), locked=locked, writes=writes_locks
        )
        self._trust = trust
        self._outputs, self._results = RunOutputs(where), KeptResults(where, owner_of(project))
        self._decider = Decider(spaces, trust, project, self._locks, self._results)
        surroundings = Surroundings(spaces, trust, project, where, environment, locked, lambda: self)
        self._primitives = Primitives(self.PRIMITIVE_MAP, surroundings)
        self.secrets = SecretStore(spaces.user.root)
        self._preparation = Preparation(
            spaces,
            trust,
            self._primitives,
            secrets=self.secrets,
            project=project,
            state=where,
            environment=environment,
            why_cold=lambda: "off" if environment.get(WARM_VARIABLE) == "0" else why_cold(),
            results=self._results,
        )
        self._log = RunLog(where, notary=RunnerNotary(where, revoked=trust.store.revocations), tell=tell)
        self._live = LiveRuns(where)
        self.shelf = Shelf(self._outputs, self._results, self._may_see)

    # --- what callers ask for ---

    async def execute(
        self,
        item_id: str,
        parameters: Mapping[str, Any] | None = None,
        validate_chain: bool = True,
        use_lockfile: bool = True,
        *,
        timeout: float | None = None,
        watch: Watch | None = None,
    ) -> ExecutionResult:
        """Run a tool; what is refused is a result too.

        Without `validate_chain` inputs, outputs and versions are passed over, never spaces or signatures.
        Without `use_lockfile` no lockfile is looked at or written, which locked mode refuses.
        """
        try:
            return await self.run(
                item_id,
                parameters,
                validate_chain=validate_chain,
                use_lockfile=use_lockfile,
                timeout=timeout,
                watch=watch,
            )
        except RyeError as exc:
            return ExecutionResult.refused(exc, item_id=item_id)

    async def run(
        self,
        item_id: str,
        parameters: Mapping[str, Any] | None = None,
        *,
        validate_chain: bool = True,
        use_lockfile: bool = True,
        timeout: float | None = None,
        caller: Caller = Caller(),  # noqa: B008 - a frozen value
        watch: Watch | None = None,
        agreed: str | None = None,
    ) -> ExecutionResult:
        """Run a tool; RyeError for what is refused before it runs.

        With `agreed`, the mark of a preview, nothing runs but what that preview was of.
        """

        async def decide() -> DecidedCall:
            decided = await self._decider.decide(
                item_id,
                parameters,
                caller,
                timeout=timeout,
                validate_chain=validate_chain,
                use_lockfile=use_lockfile,
            )
            return await self._decider.settled(decided, agreed)

        if self._open_engines is None or (watch is not None and watch.observer is not None):
            return await self._done(decide, item_id, caller, watch, agreed)
        try:
            here = partial(in_one_trip, partial(self._here, decide))
            return await self._done(here, item_id, caller, watch, agreed)
        except Placed as placed:
            return await self._elsewhere(placed, caller, watch or Watch(), agreed)

    async def bundle(
        self,
        item_id: str,
        parameters: Mapping[str, Any] | None = None,
        *,
        caller: Caller = Caller(),  # noqa: B008 - a frozen value
        timeout: float | None = None,
    ) -> Bundle:
        """A call of a tool as a value, decided and not done; RyeError for what is refused."""
        async with admitted():
            decided = await self._decider.decide(item_id, parameters, caller, timeout=timeout)
            return (await self._decider.settled(decided)).bundle()

    async def run_bundle(
        self, bundle: Bundle, *, granted: Permissions | None = None, watch: Watch | None = None
    ) -> ExecutionResult:
        """Run what a bundle says, if this machine trusts it too; RyeError for what is refused.

        `granted` is the most that it may do, where that is less than the bundle says.
        """
        decide = partial(in_one_trip, partial(self._decider.accept, bundle, granted))
        return await self._done(decide, bundle.item_id, bundle.caller, watch)

    async def require(self, bundle: Bundle, *, granted: Permissions | None = None) -> None:
        """RyeError for a bundle that this machine would refuse before anything of it runs."""
        async with admitted():
            await self._decider.accept(bundle, granted)

    async def _done(
        self,
        decide: Decide,
        item_id: str,
        caller: Caller,
        watch: Watch | None,
        agreed: str | None = None,
    ) -> ExecutionResult:
        """Decide a call, carry it out, and return its result."""
        logged = LoggedCall(self._log, item_id, self._project, caller, agreed)
        if watch is not None and watch.observer is not None:
            decide = partial(_unrestricted, decide)
        async with logged.refusals(), self._begun(decide, logged) as run:
            call = run.call
            outcome = await self._outcome(run, logged, watch or Watch())
            result = await off_loop(partial(self._result, run, outcome, logged), shielded=True)
        if outcome.success:
            self._preparation.learn(call)
        if call.let_wait is not None:
            call.let_wait()
        return result

    async def _here(self, decide: Decide) -> DecidedCall:
        """The same call, if it runs on this machine; `Placed` otherwise."""
        decided = await decide()
        place = await self._place(decided)
        if place is not None:
            raise Placed(decided, place)
        return decided

    async def _place(self, decided: DecidedCall) -> Place | None:
        """Where a call runs; None where that is this machine. RyeError `no_fitting_node` if nowhere."""
        if decided.chain.root.metadata.workspace is None or self._open_engines is None:
            return None
        if self._engines is None:
            self._engines = self._open_engines()
        return await self._engines.fitting(decided)

    async def _elsewhere(
        self, placed: Placed, caller: Caller, watch: Watch, agreed: str | None
    ) -> ExecutionResult:
        """What comes of a call on another machine; one that may run twice is made again when it is lost."""
        root, lock = placed.decided.chain.root, partial(self._locks.create, placed.decided.pinned)
        hidden, noticed = self._preparation.confinement.hidden, tuple[Notice, ...]()
        while True:
            logged = LoggedCall(self._log, root.item_id, self._project, caller, agreed)
            live = self._live.begin(logged.run_id)
            try:
                async with logged.refusals():
                    tree = await tree_of(placed.decided, self._project, self._trust, hidden)
                    result = await run_elsewhere(
                        placed, logged, _seen_live(watch, live), noticed=noticed, tree=tree, lock=lock
                    )
            finally:
                self._live.end(live)
            if result.code != "lost" or not root.metadata.idempotent or noticed:
                break
            noticed = (retried(result),)
        return result

    async def _outcome(self, run: _Run, logged: LoggedCall, watch: Watch) -> Outcome:
        """Return the outcome of a run, which others follow meanwhile."""
        if watch.on_begun is not None:
            watch.on_begun(logged.run_id)
        live = self._live.begin(logged.run_id)
        try:
            async with _calling(run.call, logged.run_id, watch, self._project) as job:
                return await job.run(_seen_live(watch, live), run.call.show, run.spool)
        finally:
            self._live.end(live)

    def _begin(self, call: PreparedCall, logged: LoggedCall) -> _Run:
        """Log that a run begins; for a program, there is a place for what is too long for the answer."""
        noticed = tuple(logged.began(call))
        spool = self._outputs.spool(logged.run_id) if isinstance(call.job, ProcessJob) else None
        if (missing := _missing_before(call)) is not None:
            UNDER_WAY.begin(logged.run_id, missing)
        return _Run(call, noticed, spool)

    def _give_up(self, run: _Run | None, logged: LoggedCall) -> None:
        """Log that a run was given up, once what it must not have made is moved away."""
        try:
            if run is not None:
                _take_planted(run.call, logged.run_id)
        finally:
            UNDER_WAY.end(logged.run_id)  # also of a run that nobody has heard of
            logged.given_up()
            self._outputs.finish(logged.run_id)

    def _result(self, run: _Run, outcome: Outcome, logged: LoggedCall) -> ExecutionResult:
        """Write lockfile and log, and return the result for the caller."""
        call = run.call
        planted = _take_planted(call, logged.run_id)
        self._outputs.finish(logged.run_id)
        kept, left_out = kept_files(call.snapshot, self._results)
        if call.decision.calls and outcome.success and is_result_handle(outcome.data):
            outcome, returned = _with_link(outcome, self._results)
            kept = (*kept, *returned)
        before = pinned = call.decision.pinned
        if outcome.success:
            pinned = self._locks.create(before)
        later = pinned.notices[len(before.notices) :]
        ended = logged.ended(outcome)
        result = ExecutionResult.of(
            outcome,
            item_id=pinned.valid.verified.chain.root.item_id,
            run_id=logged.run_id,
            receipt=logged.receipt,
            chain=pinned.as_data(),
            sealed=call.sealed,
            notices=(*call.notices, *run.notices, *planted, *later, *ended, *left_out),
            kept=kept,
            lock=pinned.lock.as_dict(),
            metadata={} if call.sealed else {"why_not_sealed": call.why_not_sealed},
        )
        return _with_companion(result, call)

    def log_refusal(self, item_id: str, error: RyeError, caller: Caller) -> None:
        """Log a call that was refused before it came here."""
        logged = LoggedCall(self._log, item_id, self._project, caller)
        logged.refused(error)
        error.receipt = logged.receipt

    async def dry_run(
        self,
        item_id: str,
        parameters: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
        use_lockfile: bool = True,
    ) -> DryRun:
        """Everything but the run; RyeError for what would be refused, or could not be started."""
        decide = partial(
            self._decider.decide, item_id, parameters, Caller(), timeout=timeout, use_lockfile=use_lockfile
        )
        async with self._prepared(decide) as call:
            found = DryRun.of(call, await self._place(call.decision))
        if found.obstacle is not None:
            raise found.obstacle
        return found

    async def outlook(self, item_id: str, parameters: Mapping[str, Any] | None = None) -> DryRun:
        """A dry run that also tells what would run where something is missing on the machine.

        Without parameters it is a sketch: what a call needs stays open. UnfilledError where nothing can be
        shown.
        """
        sketched = parameters is None
        decide = partial(self._decider.decide, item_id, parameters, Caller(), sketched=sketched)
        async with self._prepared(decide) as call:
            return DryRun.of(call, await self._place(call.decision))

    async def preview(self, item_id: str, parameters: Mapping[str, Any] | None = None) -> Preview:
        """Return the preview that somebody can agree to; RyeError for every refusal up to there."""
        async with admitted():
            decision = await self._decider.decide(item_id, parameters, Caller())
            return decision.preview()

    async def capability(self, item_id: str, agreed: str | None = None) -> Preview:
        """Return the rights of a tool, and those nobody has agreed to yet; with any parameters.

        With `agreed`, the mark of what somebody was shown, it is agreed to from now on; RyeError
        `confirmation_outdated` when it is not that any more.
        """
        async with admitted():
            decision = await self._decider.decide(item_id, None, Caller(), sketched=True)
            if agreed is not None:
                decision.require_agreed(agreed)
                await off_loop(partial(decision.comparison.keep, self._trust))
            return decision.preview()

    async def settle(self) -> None:
        """Wait until what is done beside the calls is done: interpreters wait, modules are compiled."""
        await self._preparation.background.wait()

    async def close(self) -> None:
        """Close what is open in this event loop, and the log."""
        if self._engines is not None:
            await self._engines.close()
        await self._primitives.close()
        await self._preparation.close()
        for close in (self._live.close, self._outputs.close, self._results.close, self._log.close):
            await off_loop(close, shielded=True)

    # --- the stages ---

    @asynccontextmanager
    async def _prepared(self, decide: Decide) -> AsyncIterator[PreparedCall]:
        """A call, ready to run; its private copy is gone when the block ends."""
        async with admitted(), self._preparation.begin(await decide()) as draft:
            yield await in_one_trip(draft.finish)

    @asynccontextmanager
    async def _begun(self, decide: Decide, logged: LoggedCall) -> AsyncIterator[_Run]:
        """The same of a call that runs, which the log knows of; one that is given up is logged as such."""

        async def ready() -> _Run:
            call = await draft.finish()
            return await off_loop(partial(self._begin, call, logged))

        run: _Run | None = None
        async with admitted(), self._preparation.begin(await decide(), runs=True) as draft:
            try:
                run = await in_one_trip(ready)
                yield run
            except BaseException:
                if logged.is_under_way:
                    await off_loop(partial(self._give_up, run, logged), shielded=True)
                raise

    def _may_see(self, run_id: str) -> bool:
        """Whether a run is one of this project, or of none like this executor."""
        project = None if self._project is None else printable(self._project)
        try:
            return self._log.get(run_id).project == project
        except RyeError as exc:
            if exc.code != "run_not_found":
                raise
            return False

    def _build_chain(self, item_id: str) -> Chain:
        """The chain of a tool; nothing of it is verified yet."""
        return self._decider.builder.build(item_id)


@dataclass(frozen=True, slots=True)
class _Run:
    """A call that has begun to run, the notices of that, and the place for long output."""

    call: PreparedCall
    notices: tuple[Notice, ...]
    spool: Spool | None


def _take_planted(call: PreparedCall, run_id: str) -> tuple[Notice, ...]:
    """Move away the files that a run must not make, however the run ended."""
    if (missing := _missing_before(call)) is None:
        return ()
    try:
        return missing.take_away(run_id)
    finally:
        UNDER_WAY.end(run_id)


def _missing_before(call: PreparedCall) -> Missing | None:
    return call.job.missing if isinstance(call.job, ProcessJob) else None


@asynccontextmanager
async def _calling(call: PreparedCall, run_id: str, watch: Watch, project: Path | None) -> AsyncIterator[Job]:
    """The job of a call; that of a program asks for calls through its descriptor."""
    job = call.job
    if watch.inside is None or not call.decision.calls or not isinstance(job, ProcessJob):
        yield job
        return
    program = Program.of(call.decision, run_id, job.process.call.timeout, project=project)
    async with watch.inside(program, watch.on_call) as descriptor:
        yield replace(job, asks_at=descriptor)


def _seen_live(watch: Watch, live: LiveRun) -> Watch:
    """The same observer, together with everybody who follows the runs of this user.

    They see nothing of a run that is shorter than they would notice.
    """
    on_output, on_started = watch.on_output, watch.on_started

    def wrote(stream: StreamName, data: bytes, skipped: int) -> None:
        live.on_output(data)
        if on_output is not None:
            on_output(stream, data, skipped)

    def started(pid: int, enforced: Enforced | None) -> None:
        live.on_started(pid)
        if on_started is not None:
            on_started(pid, enforced)

    quiet = YOUNG_S / 2 if on_output is None and on_started is None else watch.quiet
    return replace(watch, on_output=wrote, on_started=started, quiet=quiet)


async def _unrestricted(decide: Decide) -> DecidedCall:
    return (await decide()).unrestricted()


def _with_link(outcome: Outcome, results: KeptResults) -> tuple[Outcome, tuple[Kept, ...]]:
    """The outcome of a program that returned a handle: what it stands for is linked, or it has failed."""
    try:
        kept = results.kept(outcome.data, name="data")
    except RyeError as exc:
        return replace(outcome, success=False, code=exc.code, error=exc.message, hint=exc.hint), ()
    return replace(outcome, data=None), (kept,)


def _with_companion(result: ExecutionResult, call: PreparedCall) -> ExecutionResult:
    """The same result; with a better hint when the run failed for want of a file that was not carried."""
    if result.success or not result.stderr or call.snapshot is None:
        return result
    verified = call.decision.verified
    hint = missing_companion(result.stderr, verified.carried, verified.chain.root.path.parent)
    if hint is None:
        return result
    signer = verified.root.signer
    known = {"signed_before_by": signer.owner} if signer.kind is SignerKind.PERSON else {}
    return replace(result, hint=hint, metadata={**result.metadata, **known})
