"""The stages between a pinned chain and its run: parameters, private copy, environment, configuration.

Each takes the result of the one before it. A `PreparedCall` holds everything that the run needs; its private
copy is gone when its block ends. Only bytecode of verified files is kept for another call (`job.bytecode`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

import anyio

from lilux._dataclasses import dataclass
from lilux.primitives.subprocess import Facts, Halves, SubprocessPrimitive
from rye_mcp.apart import apart, off_loop
from rye_mcp.errors import RyeError
from rye_mcp.executor.chain.verifier import VerifiedChain
from rye_mcp.executor.configuration.builder import build_other, build_process, build_request
from rye_mcp.executor.configuration.merged import ARGUMENTS, merge_config, merged, runs_given_code
from rye_mcp.executor.configuration.parameters import Parameters
from rye_mcp.executor.decider import DecidedCall
from rye_mcp.executor.environment.project import PACKAGES
from rye_mcp.executor.environment.resolver import Environment, EnvironmentResolver, Paths
from rye_mcp.executor.environment.unresolved import Basis
from rye_mcp.executor.job.bytecode import Background, BytecodeStore
from rye_mcp.executor.job.confinement import Bounds, Confined, Confinement, Rights
from rye_mcp.executor.job.enforcement import Enforceable
from rye_mcp.executor.job.in_process import InProcessPrimitive, build_in_process
from rye_mcp.executor.job.jobs import HttpJob, Job, OtherJob, ProcessJob, address_of
from rye_mcp.executor.job.primitives import Primitives
from rye_mcp.executor.job.snapshot import SCRATCH, Room, Snapshot, SnapshotStore
from rye_mcp.executor.job.starting import Starting
from rye_mcp.executor.tree import CALL_COMMAND
from rye_mcp.executor.warm.turns import Turn, Warmth
from rye_mcp.executor.workspace import NEVER_SEALED
from rye_mcp.notices import Notice
from rye_mcp.permissions import Host, Requirement, problem_of_host
from rye_mcp.runs.results import KeptResults
from rye_mcp.secret_store import SecretStore
from rye_mcp.spaces import Spaces
from rye_mcp.trust.scope import SignerKind
from rye_mcp.trust.verify import Trust

if TYPE_CHECKING:
    from lilux.primitives.http_client import HttpSpec

__all__ = ["Preparation", "PreparedCall", "UnfinishedCall"]

_PROJECT_USED: Final = "it uses unsigned parts of the project that you approved"
_GIVEN_CODE: Final = "it runs code that it was given"
_TOOL_ITSELF: Final = "{tool_path}"


@dataclass(frozen=True, slots=True)
class PreparedCall:
    """A call that lacks nothing but to be run. `why_not_sealed` is None where only what was verified runs."""

    decision: DecidedCall
    environment: Environment
    snapshot: Snapshot | None
    job: Job
    notices: tuple[Notice, ...] = ()
    why_not_sealed: str | None = None
    enforceable: Enforceable | None = None
    let_wait: Callable[[], None] | None = None
    """Lets an interpreter wait for the next call of this kind."""

    @property
    def sealed(self) -> bool:
        """Whether nothing but what was verified can run."""
        return self.why_not_sealed is None

    def show(self, text: str) -> str:
        """A text that the tool wrote, with the paths that people know."""
        return text if self.snapshot is None else self.snapshot.show(text)


@dataclass(frozen=True, slots=True)
class _Sources:
    """The places of a tool that nothing is written of: a request needs no copy of a file."""

    tool_path: Path

    @property
    def tool_dir(self) -> Path:
        return self.tool_path.parent

    @property
    def anchor_path(self) -> None:
        return None

    @property
    def runtime_lib(self) -> None:
        return None

    @property
    def output_dir(self) -> None:
        return None


class Preparation:
    """Prepares the calls of one project, or of none."""

    def __init__(
        self,
        spaces: Spaces,
        trust: Trust,
        primitives: Primitives,
        *,
        secrets: SecretStore,
        project: Path | None,
        state: Path,
        environment: Mapping[str, str],
        results: KeptResults,
        why_cold: Callable[[], str | None],
    ) -> None:
        """`why_cold` says why no interpreter may wait for a call, each time that one could."""
        self.results = results
        self.primitives = primitives
        self.confinement = Confinement(spaces, project, state, environment)
        self.secrets: SecretStore | None = secrets
        self.environments = EnvironmentResolver(trust, environment)
        self.starting = Starting(trust.directories)
        self.background = Background()
        self.bytecode = BytecodeStore(lambda program: trust.directories.why_tools_write(program) is None)
        self._spaces = spaces
        self._project = project
        self._snapshots = SnapshotStore(environment=environment)
        self._is_swept = False
        self.warmth = Warmth(self._snapshots, self.background, why_cold)

    def begin(self, decision: DecidedCall, *, runs: bool = False) -> UnfinishedCall:
        """The call as a block; nothing is prepared before it is entered.

        It may run in an interpreter that waited, if it `runs` at all.
        """
        chain = decision.chain
        primitive = self.primitives.at_end_of(chain)
        copied = isinstance(primitive, SubprocessPrimitive) and not chain.root.metadata.is_primitive
        turn = self.warmth.turn(decision) if runs and copied else Turn()
        return UnfinishedCall(self, decision, primitive, turn, copied, runs)

    def paths_of(self, decision: DecidedCall, snapshot: Snapshot | None) -> Paths:
        """Where everything of a call is."""
        return Paths(
            project=self._project,
            user_space=self._spaces.user.root,
            system_space=self._spaces.system.root,
            tool_source=decision.chain.root.path,
            snapshot=snapshot or _Sources(decision.chain.root.path),
        )

    async def facts(self) -> Facts:
        """Return what this machine can enforce; it is found out once."""
        return await self.confinement.facts()

    def learn(self, call: PreparedCall) -> None:
        """Have what a run that went well has imported compiled, for the next one; nobody waits for that."""
        if isinstance(call.job, ProcessJob) and call.snapshot is not None:
            carried, process = call.decision.verified.carried, call.job.process
            if self.bytecode.lacks(carried, process):
                self.background.start(partial(self.bytecode.learn, carried, process))

    async def close(self) -> None:
        """End what is under way or waits, and remove every private copy that is left."""
        await self.warmth.close()
        await self.background.close()
        await off_loop(self._snapshots.close, shielded=True)

    def basis_of(self, verified: VerifiedChain) -> Basis:
        """Look up what the environment of a call depends on."""
        return self.environments.look(verified, self._project)

    def snapshot_of(self, verified: VerifiedChain, room: Room | None) -> Snapshot:
        """Make the private copy of a call."""
        if not self._is_swept:
            self._is_swept = True
            self._snapshots.sweep()
        command = merge_config(verified.chain).get("command")
        runs_itself = isinstance(command, str) and command.strip() == _TOOL_ITSELF
        return self._snapshots.create(verified.carried, executable_tool=runs_itself, room=room)


@dataclass(eq=False, slots=True)
class UnfinishedCall:
    """A decided call, whose private copy is removed when the block ends; `finish` prepares it."""

    _preparation: Preparation
    _decision: DecidedCall
    _primitive: Any
    _turn: Turn
    _copied: bool
    _runs: bool
    _snapshot: Snapshot | None = None
    _basis: Basis = field(default_factory=Basis)
    _let_wait: Callable[[], None] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with anyio.CancelScope(shield=True):
            await self._turn.close()
        if self._snapshot is None:
            return
        remove = partial(off_loop, self._snapshot.remove, shielded=True)
        if self._runs and error is None:  # what ran in it has ended: the caller need not wait for that
            self._preparation.background.start(remove, after=0.0)
        else:
            await remove()

    async def finish(self) -> PreparedCall:
        """The whole call. Most of its stages need no event loop, and so share one trip to a thread."""
        await off_loop(self._look)
        decision = self._decision
        carried, permitted = decision.verified.carried, decision.permitted_env
        environments = self._preparation.environments
        environment = await environments.resolve(
            decision.verified,
            self._paths,
            carried.anchor,
            permitted,
            decision.caller.trace,
            self._basis,
            await self._secrets(),
        )
        job, noticed = await self._job(environment)
        notices = (*decision.notices, *environment.notices, *noticed)
        unsealed = carried.why_not_sealed or (_PROJECT_USED if environment.project_used else None)
        unsealed = unsealed or getattr(job, "why_not_sealed", None)
        unsealed = unsealed or (NEVER_SEALED if decision.works_on_files else None)
        unsealed = unsealed or (_GIVEN_CODE if self._is_given_code(job) else None)
        enforceable = None
        if isinstance(job, ProcessJob) and (policy := job.process.call.policy) is not None:
            enforceable = Enforceable.of(await self._preparation.facts(), policy)
        return PreparedCall(
            decision, environment, self._snapshot, job, notices, unsealed, enforceable, self._let_wait
        )

    def _look(self) -> None:
        """Do the file work of a call before it runs: look up its environment, and make its copy."""
        preparation, verified = self._preparation, self._decision.verified
        self._basis = preparation.basis_of(verified)
        if self._copied:
            self._snapshot = preparation.snapshot_of(verified, self._turn.room)

    @property
    def _paths(self) -> Paths:
        return self._preparation.paths_of(self._decision, self._snapshot)

    @property
    def _calls(self) -> bool:
        """Whether it is a program that has a private copy, in which it finds the command for its calls."""
        return self._snapshot is not None and bool(self._decision.calls)

    async def _confined(
        self,
        process: Halves,
        environment: Environment,
        interpreters: tuple[Path, ...],
        command: str | None,
    ) -> Confined:
        """The process, confined to what its tool may do; and whether it fits an interpreter that waited."""
        snapshot, turn = self._snapshot, self._turn
        is_free = self._decision.permissions.unconfined
        needs_scratch = not is_free and snapshot is not None
        if needs_scratch:
            needs_scratch = (await self._preparation.facts()).cell is None
        also = (environment.packages, None if command is None else Path(command))
        confine = partial(self._confine, process, also, interpreters)

        def elsewhere(room: Room | None) -> Halves:
            if room is None:
                return confine(None, None).process
            return confine(room.root, room.root / SCRATCH if needs_scratch else None).process

        def work() -> Confined:
            scratch = snapshot.make_scratch() if snapshot is not None and needs_scratch else None
            confined = confine(None if snapshot is None else snapshot.root, scratch)
            turn.settle(confined.process, self._decision.pinned.lock.path)
            if snapshot is not None:
                self._complete(snapshot, confined.process, environment, command)
            return confined

        confined = await off_loop(work)
        if turn.warm is not None:
            over = partial(self._preparation.warmth.over, turn, self._primitive, elsewhere)
            self._let_wait = partial(over, scratch=needs_scratch, scripts=self._scripts())
        return confined

    def _complete(
        self, snapshot: Snapshot, process: Halves, environment: Environment, command: str | None
    ) -> None:
        """Put into the private copy what is not carried: a command, packages of the project, and bytecode."""
        if command is not None:
            snapshot.add_command(CALL_COMMAND, command)
        if environment.packages is not None:
            snapshot.link(PACKAGES, environment.packages)
        known = self._preparation.bytecode.known(self._decision.verified.carried, process)
        if known is not None:
            snapshot.add(known)

    def _scripts(self) -> tuple[bytes, ...]:
        """The sources of the library of the runtime, which interpreters that wait have compiled."""
        library = self._decision.verified.carried.library
        return tuple(file.content for file in library if file.relative.endswith(".py"))

    def _confine(
        self,
        process: Halves,
        also: tuple[Path | None, ...],
        interpreters: tuple[Path, ...],
        root: Path | None,
        scratch: Path | None,
    ) -> Confined:
        """The process as it is confined with its private copy at `root`."""
        if self._decision.permissions.unconfined:
            return Confined(process)
        return self._preparation.confinement.confine(
            Rights.of(self._decision),
            process,
            private_copy=root,
            scratch=scratch,
            also=(*also, self._paths.snapshot.anchor_path),
            interpreters=interpreters,
        )

    def _is_found_by_server(self, command: str, environment: Environment) -> bool:
        """Whether it is no item of an agent that says which program this is."""
        if "/" in command:
            return command in map(str, environment.interpreters)
        path = self._preparation.environments.path_of_server(self._basis)
        return environment.variables.get("PATH") == path

    def _require_confinable(self) -> None:
        """RyeError `isolation_unavailable` for work of this process that must be confined."""
        root, permissions = self._decision.verified.root, self._decision.permissions
        if permissions.require is Requirement.NONE or root.signer.kind is SignerKind.SYSTEM:
            return
        if getattr(self._primitive, "confines", False):
            return
        item_id, primitive = root.file.item_id, self._decision.chain.primitive.item_id
        what = f"expected {item_id} to run confined, found that nothing confines what {primitive} does"
        hint = f"a person who has read it signs it: rye sign {item_id}"
        raise RyeError("isolation_unavailable", what, hint=hint, where=root.file.path, item_id=item_id)

    def _reachable(self, request: HttpSpec) -> HttpSpec:
        """Limit a request to the hosts of its tool; RyeError `denied_by_policy` for one to another place.

        This program makes it, so nothing else keeps a redirect from leading elsewhere, and a name from being
        one of this machine.
        """
        permissions, root = self._decision.permissions, self._decision.chain.root
        if permissions.any_host:
            return request
        name, _, port = address_of(request).rpartition(":")
        host = Host(name.lower(), int(port))
        if permissions.reaches(host):
            return replace(request, follow_redirects=False, host_from_parameter=not host.is_this_machine)
        what = f"expected {root.item_id} to connect to what it may reach, found {host}"
        named = f'"{host.written}"' if ":" in host.written else host.written  # as YAML wants it in a list
        net = "any" if problem_of_host(host.written) else f"[{named}]"  # addresses cannot be named
        hint = f"a person writes permissions: {{net: {net}}} and signs it: rye sign {root.item_id}"
        raise RyeError("denied_by_policy", what, hint=hint, where=root.path, item_id=root.item_id)

    async def _secrets(self) -> Mapping[str, str]:
        names, store = self._decision.secrets, self._preparation.secrets
        if not names:
            return {}
        if store is None:
            what = "expected a signed tool, found a draft, which gets no secrets"
            raise RyeError("secret_missing", what, hint=f"rye sign {self._decision.chain.root.item_id}")
        return await off_loop(partial(store.values, names))

    def _with_files(self, parameters: Parameters) -> Parameters:
        """The parameters with a file in the private copy for each that takes a handle."""
        if self._snapshot is None:
            return parameters
        results, snapshot, paths = self._preparation.results, self._snapshot, dict[str, str]()
        for name in sorted(parameters.handles):
            with results.opened(parameters.values[name]) as descriptor:
                paths[name] = str(snapshot.add_result(descriptor))
        return parameters.with_values(paths)

    def _is_given_code(self, job: Job) -> bool:
        chain = self._decision.chain
        if chain.root.metadata.is_primitive:
            return isinstance(job, ProcessJob)
        return runs_given_code(chain, self._decision.parameters.declared)

    async def _process_job(
        self, primitive: SubprocessPrimitive, environment: Environment
    ) -> tuple[Job, tuple[Notice, ...]]:
        decision, paths, starting = self._decision, self._paths, self._preparation.starting
        values, carried = decision.parameters, decision.verified.carried
        if values.handles:
            values = await off_loop(partial(self._with_files, values))
        built = build_process(
            decision.valid, values, environment, paths, carried.anchor, timeout=decision.timeout
        )
        direct = decision.chain.root.metadata.is_primitive
        keep_cwd = direct and values.values["config"].get("cwd") is not None
        process = await starting.process(built.spec, direct=direct, keep_cwd=keep_cwd)
        interpreters = environment.interpreters
        if self._is_found_by_server(built.spec.runtime.command, environment):
            interpreters = (*interpreters, Path(process.runtime.command))
        command = primitive.supervisor_file if self._calls else None
        confined = await self._confined(process, environment, interpreters, command)
        job = ProcessJob(
            primitive,
            confined.process,
            decision.permissions,
            confined.where,
            missing=confined.missing,
            direct=direct,
            with_flags=not direct and ARGUMENTS in merged(decision.chain).values,
            turn=self._turn,
            commands=self._snapshot.commands_dir if self._snapshot is not None and command else None,
        )
        return job, (*built.notices, *starting.notices(process, paths.snapshot.runtime_lib))

    async def _job(self, environment: Environment) -> tuple[Job, tuple[Notice, ...]]:
        """Return the job of the primitive, by its kind."""
        decision, paths, primitive = self._decision, self._paths, self._primitive
        valid, values, timeout = decision.valid, decision.parameters, decision.timeout
        starting = self._preparation.starting
        if isinstance(primitive, SubprocessPrimitive):
            return await self._process_job(primitive, environment)
        if _is_http(primitive):
            request = build_request(valid, values, environment, paths, timeout=timeout)
            return HttpJob(primitive, self._reachable(request.spec)), request.notices
        self._require_confinable()
        if isinstance(primitive, InProcessPrimitive):
            call = build_in_process(valid, values, environment, paths, timeout=timeout)
            bounds = Bounds(Rights.of(decision), self._preparation.confinement, starting.directories)
            above = decision.caller.program
            tree = None if above is None else await apart(lambda: above.outermost.key)
            spec = replace(starting.in_process(call.spec), bounds=bounds)
            return primitive.job(replace(spec, tree=tree)), call.notices
        other = build_other(valid, values, environment, paths)
        return OtherJob(primitive, other.spec), other.notices


def _is_http(primitive: Any) -> bool:
    """Whether it is the HTTP client, which is imported only when there is one."""
    module = sys.modules.get("lilux.primitives.http_client")
    return module is not None and isinstance(primitive, module.HttpClientPrimitive)
