"""`rye dev`: work on a tool, and see at every change what is wrong with it and what would run.

    rye dev [options] ID [--name value …]
    rye dev --learn ID

Rules:

- It is for a person at a terminal, and refuses everybody else: here, and nowhere else, a draft runs that
  nobody has signed. It runs when its person presses a key, never because a file has changed.
- What is signed is what was looked at, to the byte: with whatever it rests on, or nothing is.
- A draft goes through every stage of a call (`rye_mcp.executor.drafts`). What it rests on has to be signed.
- Parameters stand behind the id, as for `rye run`; without any, those of the first example are taken.
"""

from __future__ import annotations

import json
import os
import sys
import termios
import tty
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from lilux._dataclasses import dataclass
from rye_mcp.cli._command_groups import EXIT_INTERRUPTED, command_group
from rye_mcp.cli._options import ItemArgument, JsonOption, ProjectOption, open_app, person
from rye_mcp.cli._parameters import parse_parameters
from rye_mcp.cli._printing import Live, print_result, report, say, warn
from rye_mcp.cli._terminal import can_ask
from rye_mcp.errors import RyeError
from rye_mcp.items import ItemFile, ItemType, printable

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectSendStream

    from rye_mcp.app import App
    from rye_mcp.executor.dry_run import DryRun
    from rye_mcp.executor.primitive_executor import PrimitiveExecutor
    from rye_mcp.trust.drafts import Draft
    from rye_mcp.verbs.context import Context

__all__ = ["dev"]

dev = command_group("Work on a tool: see at every change what is wrong, and run the draft.")

_CHANGED: Final = "changed"
_QUIT: Final = "q"
_WATCHED: Final = "watched"
_CHANGED_MEANWHILE: Final = frozenset({"content_changed", "confirmation_outdated"})
_KEYS_AT_ONCE: Final = 64
_LOCAL_FLAGS: Final = 3


LearnOption = Annotated[
    bool,
    typer.Option("--learn", help="Run its examples, or one call, and print the permissions that it needs."),
]
ResolveOption = Annotated[
    list[str] | None,
    typer.Option(
        "--resolve", metavar="NAME:PORT:ADDRESS", help="With --learn: where a host is; more than once."
    ),
]


@dev.command(
    "dev",
    context_settings={
        "ignore_unknown_options": True,
        "allow_extra_args": True,
        "allow_interspersed_args": False,
    },
)
def work_on(
    ctx: typer.Context,
    item: ItemArgument,
    learn: LearnOption = False,
    resolve: ResolveOption = None,
    project: ProjectOption = None,
    as_json: JsonOption = False,
) -> None:
    """Work on a tool: see at every change what is wrong, and run the draft."""
    import anyio

    if not can_ask() or not (learn or sys.stdout.isatty()):
        what = "expected a person at a terminal, who may run what nobody has signed; found none"
        raise RyeError("person_required", what, item_id=item, hint=f"rye sign {item}, then: rye run {item}")
    app = open_app(project)
    try:
        app.spaces.find(item, ItemType.TOOL)
    except RyeError as exc:
        if exc.code == "item_not_found":
            exc.hint = f"rye new {item}"
        raise
    session = _Session(app, person(app), item, list(ctx.args))
    if learn:
        return anyio.run(partial(session.learn, resolve or [], as_json=as_json))
    try:
        with _single_keys():
            anyio.run(session.run)
    except KeyboardInterrupt:
        raise typer.Exit(EXIT_INTERRUPTED) from None


@dataclass(frozen=True, slots=True)
class _Look:
    """The state of the file: a draft, or signed (`draft` is None), and its parameters.

    `signs` are the files that would be signed with it, as they are; or why it would not be signed.
    """

    file: ItemFile
    parameters: Mapping[str, Any]
    draft: Draft | None
    signs: Mapping[str, str] | RyeError


class _Session:
    """One person, working on one tool."""

    def __init__(self, app: App, context: Context, item: str, words: list[str]) -> None:
        self._app = app
        self._context = context
        self._item = item
        self._words = words
        self._look: _Look | None = None
        self._seen: ItemFile | None = None
        self._keys: Mapping[str, Callable[[], Awaitable[None]]] = {
            _CHANGED: self.look,
            _WATCHED: self.look_if_changed,
            "r": self.run_it,
            "s": self.sign_it,
        }

    async def run(self) -> None:
        """Look, then do what is asked for, until that is to end."""
        import anyio

        tool = self._context.spaces.find(self._item, ItemType.TOOL).item.path
        send, receive = anyio.create_memory_object_stream[str](16)
        async with self._app.closing(), anyio.create_task_group() as group, receive:
            group.start_soon(_watch, tool, send)
            group.start_soon(_read_keys, send)
            await self.look()
            async for event in receive:
                if event == _QUIT:
                    break
                if event in self._keys:
                    await self._keys[event]()
            group.cancel_scope.cancel()

    async def learn(self, places: list[str], *, as_json: bool) -> None:
        """Run its examples, or the call that was given, and print the permissions that they need."""
        from rye_mcp.cli._learning import Subject, learn, parse_places, print_learned
        from rye_mcp.metadata import Example, examine, examples_of

        look = self._found()
        declared = examine(look.file).permissions
        calls = (Example(look.parameters),) if self._words else examples_of(look.file)
        subject = Subject(look.file, look.draft, calls or (Example({}),), declared, parse_places(places))
        async with self._app.closing():
            print_learned(await learn(subject, self._app), as_json=as_json)

    async def look(self) -> None:
        """Say what is wrong with the file, or what would run."""
        self._look = None
        typer.echo()
        try:
            self._look = self._found()
            _print_state(self._look)
            async with _closing(self._executor(self._look)) as executor:
                shown = await executor.dry_run(
                    self._look.file.item_id, self._look.parameters, use_lockfile=self._look.draft is None
                )
            _print_outlook(shown, self._look.parameters)
        except RyeError as exc:
            report(exc)
        except typer.BadParameter as exc:
            say(exc.format_message(), err=True)
        _print_keys(self._look)

    async def look_if_changed(self) -> None:
        """The same, when the file changed before changes were seen."""
        if self._has_changed():
            await self.look()

    async def run_it(self) -> None:
        """Run what was looked at."""
        from rye_mcp.executor.primitive_executor import Watch

        look = self._look
        if look is None:
            typer.echo("There is nothing to run yet.")
            return
        if self._has_changed():
            await self.look()
            typer.echo("It has changed since it was looked at: press r again.")
            return
        what = "the draft, which nobody has signed" if look.draft else "what was signed"
        say(f"── running {what} ──")
        live = Live(quiet=False)
        try:
            async with _closing(self._executor(look)) as executor:
                result = await executor.run(
                    look.file.item_id,
                    look.parameters,
                    use_lockfile=look.draft is None,
                    watch=Watch(on_output=live.show),
                )
            print_result(result, live)
            typer.echo(f"── {'done' if result.success else 'failed'} in {result.duration_ms:.0f} ms ──")
            if not result.success and look.draft is not None:
                _explain_lines(look.draft)
        except RyeError as exc:
            report(exc)
        _print_keys(look)

    async def sign_it(self) -> None:
        """Sign exactly the bytes that were inspected; the person may have to give a passphrase."""
        from rye_mcp.verbs.sign import SignRequest, sign

        look = self._look
        if look is None:
            typer.echo("There is nothing to sign yet.")
            return
        file = look.file
        try:
            if isinstance(look.signs, RyeError):
                raise look.signs
            request = SignRequest(
                file.item_id, file.item_type, file.space.name, exactly=file, agreed=look.signs
            )
            with _whole_lines():
                sign(request, self._context)
            say(f"── signed {file.item_id} ──")
        except RyeError as exc:
            report(exc)
            if exc.code in _CHANGED_MEANWHILE:
                await self.look()
                typer.echo("It has changed since it was looked at: press s again.")

    def _has_changed(self) -> bool:
        try:
            return self._context.spaces.find(self._item, ItemType.TOOL).item != self._seen
        except RyeError:
            return True

    def _found(self) -> _Look:
        """The file as it is now; RyeError with every issue when it could not be signed."""
        from rye_mcp.metadata import examine, examples_of
        from rye_mcp.trust.drafts import as_draft

        file = self._seen = self._context.spaces.find(self._item, ItemType.TOOL).item
        metadata = examine(file)
        draft = None
        try:
            self._context.verify(file)
        except RyeError as exc:
            draft = as_draft(file, self._context.trust, exc)
        examples = examples_of(file)
        parameters: Mapping[str, Any] = examples[0].parameters if examples else {}
        if self._words:
            parameters = parse_parameters(self._words, metadata.config_schema)
        return _Look(file, parameters, draft, self._signs(file))

    def _signs(self, file: ItemFile) -> Mapping[str, str] | RyeError:
        """Return the files that would be signed with the file, as it is now."""
        from rye_mcp.verbs.sign import SignRequest, plan

        try:
            return plan(
                SignRequest(file.item_id, file.item_type, file.space.name, exactly=file), self._context
            ).files
        except RyeError as exc:
            return exc

    def _executor(self, look: _Look) -> PrimitiveExecutor:
        from rye_mcp.executor.drafts import DraftExecutor
        from rye_mcp.executor.primitive_executor import PrimitiveExecutor

        settings = self._app.settings
        make = (
            partial(
                PrimitiveExecutor.of,
                self._app.spaces,
                self._app.trust,
                writes_locks=self._app.writes_locks,
            )
            if look.draft is None
            else partial(DraftExecutor.of_draft, look.draft, self._app.spaces)
        )
        return make(
            project=settings.project,
            state=settings.state,
            locked=settings.locked,
            environment=settings.environment,
        )


@asynccontextmanager
async def _closing(executor: PrimitiveExecutor) -> AsyncIterator[PrimitiveExecutor]:
    """An executor for one call."""
    import anyio

    try:
        yield executor
    finally:
        with anyio.CancelScope(shield=True):
            await executor.close()


async def _watch(tool: Path, send: MemoryObjectSendStream[str]) -> None:
    """Tell of every change beside the tool, and of the tool; and from when on changes are seen."""
    from rye_mcp.mcp_server.file_changes import watch

    async def changed(paths: frozenset[Path]) -> None:
        await send.send(_WATCHED if paths <= {tool} else _CHANGED)

    await watch([tool.parent], changed, begun=lambda: send.send_nowait(_WATCHED))


async def _read_keys(send: MemoryObjectSendStream[str]) -> None:
    """Tell of every key; a terminal that is gone has left."""
    import anyio

    terminal = sys.stdin.fileno()
    while True:
        await anyio.wait_readable(terminal)
        typed = os.read(terminal, _KEYS_AT_ONCE).decode("utf-8", "replace")
        for key in typed.lower() or _QUIT:
            await send.send(key)
        if not typed:
            return


@contextmanager
def _single_keys() -> Iterator[None]:
    """Keys are read one by one, without being shown; Ctrl-C still interrupts."""
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    tty.setcbreak(terminal)
    try:
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


@contextmanager
def _whole_lines() -> Iterator[None]:
    """For a moment, what is typed comes by the line, as a question needs it."""
    terminal = sys.stdin.fileno()
    now = termios.tcgetattr(terminal)
    flags = [*now]
    flags[_LOCAL_FLAGS] |= termios.ICANON | termios.ECHO
    termios.tcsetattr(terminal, termios.TCSADRAIN, flags)
    try:
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, now)


def _print_state(look: _Look) -> None:
    from rye_mcp.metadata import misspelt

    state = "signed" if look.draft is None else f"a DRAFT, {look.draft.code}: it runs here and nowhere else"
    say(f"── {look.file.item_id}: {state} ──")
    say(f"{printable(look.file.path)}: nothing is wrong with it")
    for issue in misspelt(look.file):
        warn(f"unknown_field: {issue}")


def _print_outlook(shown: DryRun, parameters: Mapping[str, Any]) -> None:
    say(f"would run  {shown.facts()['command']}")
    say(f"with       {json.dumps(parameters, ensure_ascii=False)}")
    for notice in shown.notices:
        say(f"rye: {notice.code}: {notice.message}", err=True)


def _print_keys(look: _Look | None) -> None:
    what = "" if look is None else f"r: run {'the draft' if look.draft else 'it'}   "
    sign = "" if look is None or look.draft is None else "s: sign it   "
    typer.echo(f"{what}{sign}q: quit")


def _explain_lines(draft: Draft) -> None:
    """A traceback counts the line of the signature, which a file that was never signed does not have yet."""
    if draft.code == "unsigned":
        typer.echo("Lines are counted with that of the signature: they stand one line higher in your file.")
