"""`rye doctor`: whether everything that the server needs is there, also when a desktop client starts it.

A check changes nothing, and a check that fails is a finding. `broken` keeps the server or anything signed
from working, `warning` will surprise somebody; a finding names one thing to do.
"""

from __future__ import annotations

import os
import shlex
import shutil
import stat
import sysconfig
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import anyio
import typer

from lilux._dataclasses import dataclass
from lilux.primitives.errors import ToolExecutionError
from lilux.primitives.subprocess import Facts, Hosts, Limits, Policy, ProcessSpec, SubprocessPrimitive
from rye_mcp.app import INDEX_DIRECTORY, App
from rye_mcp.cli._bare_server import BARE_PATH, Conversation, talk
from rye_mcp.cli._client_files import CLIENTS, Surroundings, parse_object
from rye_mcp.cli._command_groups import EXIT_FAILED
from rye_mcp.cli._options import JsonOption, ProjectOption, open_app
from rye_mcp.cli._printing import print_json
from rye_mcp.errors import RyeError, printable
from rye_mcp.items import SpaceName
from rye_mcp.other_users import why_others_exchange
from rye_mcp.trust.scope import SignerKind
from rye_mcp.visible import visible

__all__ = [
    "Finding",
    "check_clients",
    "check_clock",
    "check_engines",
    "check_interpreters",
    "check_isolation",
    "check_keys",
    "check_places",
    "check_server",
    "check_spaces",
    "check_supervisor",
    "check_warm_calls",
    "doctor",
    "find",
    "judge_isolation",
]

_COLOURS = {"ok": typer.colors.GREEN, "warning": typer.colors.YELLOW, "broken": typer.colors.RED}


def doctor(
    project: ProjectOption = None,
    engine: Annotated[
        bool, typer.Option("--engine", help="Start a worker of each engine too, and shake hands with it.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Check that the server works, as a client would start it, and say what to do."""
    findings = anyio.run(find, project, engine)
    broken = [finding for finding in findings if finding.state == "broken"]
    if as_json:
        print_json({"healthy": not broken, "findings": [finding.as_dict() for finding in findings]})
    else:
        for finding in findings:
            _print(finding)
        warned = sum(finding.state == "warning" for finding in findings)
        typer.echo(f"{len(findings)} checks: {len(broken)} broken, {warned} to look at")
    if broken:
        raise typer.Exit(EXIT_FAILED)


async def find(project: Path | None, reach_engines: bool = False) -> list[Finding]:
    """Carry out every check."""
    app = open_app(project)
    command = Path(sysconfig.get_path("scripts")) / "rye-mcp"
    return [
        await check_supervisor(),
        await check_isolation(),
        *await check_server(command, app),
        *check_spaces(app),
        *check_keys(app),
        *check_places(app),
        *check_interpreters(os.environ),
        check_warm_calls(app),
        check_clock(app),
        *check_clients(Surroundings(Path.home(), os.environ)),
        *await check_engines(app, reach=reach_engines),
    ]


def _print(finding: Finding) -> None:
    state = typer.style(f"{finding.state:<8}", fg=_COLOURS[finding.state])
    typer.echo(f"{state} {finding.check}: {visible(finding.message)}")
    if finding.hint is not None:
        typer.echo(f"{'':<8}   hint: {visible(finding.hint)}")


State = Literal["ok", "warning", "broken"]

INTERPRETERS: Final[Mapping[str, str]] = {
    "python3": "tools in Python",
    "bash": "tools in bash, and rye/bash/bash",
    "node": "tools in JavaScript",
    "ruby": "tools in Ruby",
    "perl": "tools in Perl",
    "uv": "scripts with dependencies of their own",
}
"""The program that a runtime starts → what needs it."""

_NEEDED = frozenset({"python3", "bash"})
_OTHERS_WRITE: Final = 0o022
_OTHERS: Final = 0o077
_PRIVATE: Final = frozenset({"user space", "keys", "state", "search index"})
_ROOM_BYTES: Final = 64 << 20
_CLOCK_SLACK_S: Final = 300
_SYSCTLS: Final[tuple[tuple[str, str, str], ...]] = (
    ("user/max_user_namespaces", "0", "sudo sysctl user.max_user_namespaces=15000"),
    ("kernel/unprivileged_userns_clone", "0", "sudo sysctl kernel.unprivileged_userns_clone=1"),
    (
        "kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0",
    ),
)
"""A setting that forbids user namespaces: file, value, and what allows them until the next boot."""

_WHOLE: Final = "pip install --force-reinstall rye-mcp"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    check: str
    state: State
    message: str
    hint: str | None = None

    @classmethod
    def refused(cls, check: str, error: RyeError, state: State = "broken") -> Finding:
        """Return the finding for a refusal."""
        where = f" ({error.where})" if error.where else ""
        return cls(check, state, f"{error.code}: {error.message}{where}", error.hint)

    def as_dict(self) -> dict[str, Any]:
        """Return it as data."""
        answer = {"check": self.check, "state": self.state, "message": printable(self.message)}
        return answer | ({} if self.hint is None else {"hint": printable(self.hint)})


async def check_supervisor() -> Finding:
    """Whether `lilux-proc` is ours, and runs something."""
    check = "supervisor"
    try:
        result = await SubprocessPrimitive().run(
            ProcessSpec(command="/bin/sh", args=("-c", "exit 0"), timeout=10)
        )
    except ToolExecutionError as exc:
        return Finding(check, "broken", exc.message, _WHOLE)
    if not result.success:
        return Finding(check, "broken", f"expected /bin/sh to run, found: {result.stderr}", _WHOLE)
    return Finding(check, "ok", f"lilux-proc ran a program in {result.duration_ms:.0f} ms")


async def check_isolation(settings: Path = Path("/proc/sys")) -> Finding:
    """Find which permissions this machine enforces, and why not more of them."""
    try:
        return judge_isolation(await SubprocessPrimitive().probe(), settings)
    except ToolExecutionError as exc:
        return Finding("isolation", "broken", exc.message, _WHOLE)


def judge_isolation(facts: Facts, settings: Path) -> Finding:
    """The same, from what the supervisor found out; `settings` are those of the kernel."""
    from rye_mcp.executor.job.enforcement import Enforceable

    limits = Limits(processes=1, memory=1, temp=1)
    everything = Policy(tier="cell", protect=("/",), mask=("/",), net=Hosts(("*",)), limits=limits)
    check, can = "isolation", Enforceable.of(facts, everything)
    if can.level == "cell":
        by = "root" if facts.cell == "administrator" else "user namespaces"
        seen = "" if facts.proc == "private" else "; they see the command lines of other programs"
        unlimited = ", ".join(each for each in can.unenforced if each != "cmdlines")
        seen += f"; nothing here limits their {unlimited}: {facts.no_groups}" if unlimited else ""
        return Finding(check, "ok", f"tools that declare permissions run in cells, made by {by}{seen}")
    if can.level == "walls":
        what = f"tools run in walls, since no cell can be made: {can.reason}"
        what += f"; walls do not enforce {', '.join(can.unenforced)}"
        what += "" if facts.broker else f"; hosts are not told apart: {facts.no_broker}"
    else:
        what = f"nothing confines tools, and what an agent signed is refused: {can.reason}"
    return Finding(check, "warning", what, _more_isolation(facts, settings))


def _more_isolation(facts: Facts, settings: Path) -> str:
    """Say how to get cells, or how to find out what forbids them."""
    if not facts.seccomp:
        return "zgrep CONFIG_SECCOMP_FILTER /proc/config.gz"
    for name, forbids, mended_by in _SYSCTLS:
        try:
            found = (settings / name).read_text("ascii").strip()
        except OSError:
            continue  # not every kernel has it
        if found == forbids:
            return mended_by
    if not facts.landlock:
        return "cat /sys/kernel/security/lsm"
    return "unshare --user --map-root-user --mount true"


async def check_server(command: Path, app: App) -> Iterator[Finding]:
    """Whether the server answers a client that starts it with hardly any environment."""
    project = None if app.spaces.project is None else app.settings.project
    try:
        heard = await talk(command, project, app.settings.environment)
    except ToolExecutionError as exc:
        return iter([Finding("server", "broken", f"it could not be started: {exc.message}", _WHOLE)])
    return _judged(heard, command)


def _judged(heard: Conversation, command: Path) -> Iterator[Finding]:
    if heard.initialized is None or heard.tools is None:
        heard_last = heard.last_words or "silence"
        what = f"expected answers of {command} in a bare environment, found none: {heard_last}"
        yield Finding("server", "broken", what, f"env -i HOME=$HOME {shlex.quote(str(command))} </dev/null")
        return
    found = f"it answers in a bare environment, with {len(heard.tools)} tools, in {heard.duration_ms:.0f} ms"
    yield Finding("server", "ok", found)
    if heard.dry_run is None:
        yield Finding(
            "execution", "broken", "a dry run of rye/bash/bash was not answered", "rye explain rye/bash/bash"
        )
    elif heard.dry_run.get("status") == "validation_passed":
        yield Finding("execution", "ok", "a dry run of rye/bash/bash finds all that it needs")
    else:
        what = f"a dry run of rye/bash/bash: {heard.dry_run.get('code')}: {heard.dry_run.get('error')}"
        yield Finding(
            "execution", "broken", what, str(heard.dry_run.get("hint") or "rye explain rye/bash/bash")
        )


def check_keys(app: App) -> Iterator[Finding]:
    """Whether there is a signing key that no other user can read."""
    try:
        key = app.keys.show(SignerKind.PERSON)
        is_encrypted = app.keys.is_encrypted(SignerKind.PERSON)
    except RyeError as exc:
        if exc.code == "no_key":
            yield Finding("key", "warning", "you have no key pair yet, and can sign nothing", "rye init")
        else:
            yield Finding.refused("key", exc)
    else:
        kept = "encrypted" if is_encrypted else "not encrypted"
        yield Finding("key", "ok", f"your key pair, {kept}: {key.fingerprint}")
    try:
        app.keys.show(SignerKind.AGENT)
    except RyeError as exc:
        if exc.code != "no_key":
            yield Finding.refused("agent key", exc)
    try:
        app.trust.store.documents()
        app.trust.store.revocations()
    except RyeError as exc:
        yield Finding.refused("trust", exc)


def check_spaces(app: App) -> Iterator[Finding]:
    """Whether the system space is what was shipped, and whether there is a project."""
    from rye_mcp.verbs.survey import SurveyRequest, survey

    try:
        found = survey(SurveyRequest(space=SpaceName.SYSTEM), app.context(SignerKind.PERSON))
    except RyeError as exc:
        yield Finding.refused("system space", exc)
    else:
        for item in found.refused[:1]:
            if item.integrity.refusal is not None:
                yield Finding.refused("system space", item.integrity.refusal)
        if not found.refused:
            yield Finding("system space", "ok", f"{len(found.items)} items, as they were shipped")
    if app.spaces.project is None:
        reason = app.settings.no_project
        yield Finding("project", "warning", reason.message if reason else "there is none", "rye init")
    else:
        yield Finding("project", "ok", printable(app.settings.project or ""))


def check_places(app: App) -> Iterator[Finding]:
    """Whether what is kept can be kept, and by this user alone."""
    places = {
        "user space": app.spaces.user.root,
        "keys": app.spaces.user.root / "keys",
        "state": app.settings.state,
        "cache": app.settings.cache,
        "search index": app.settings.cache and app.settings.cache / INDEX_DIRECTORY,
    }
    for name, path in places.items():
        if path is None:
            yield Finding(
                name, "warning", "no absolute place for it: searching is slow", "unset XDG_CACHE_HOME"
            )
        else:
            yield _place(name, path)
    yield _private_copies(app.settings.environment)


def _private_copies(environment: Mapping[str, str]) -> Finding:
    """Whether there is a place for private copies that no other user can write to."""
    from rye_mcp.executor.job.snapshot import require_place

    check = "private copies"
    try:
        return Finding(check, "ok", printable(require_place(environment)))
    except RyeError as exc:
        return Finding.refused(check, exc)


def check_warm_calls(app: App) -> Finding:
    """Whether interpreters wait for calls, and what it brings."""
    from rye_mcp.cli._warm_calls import told_of_warm_calls

    check = "warm calls"
    try:
        return Finding(check, "ok", told_of_warm_calls(app))
    except RyeError as exc:
        return Finding.refused(check, exc)


def _place(name: str, path: Path) -> Finding:
    nearest = path
    while not os.path.lexists(nearest) and nearest != nearest.parent:
        nearest = nearest.parent
    shown = printable(path)
    quoted = shlex.quote(str(nearest))
    if not nearest.is_dir():
        return Finding(
            name, "broken", f"expected a directory, found something else: {shown}", f"ls -la {quoted}"
        )
    if nearest == path and (finding := _open_to_others(name, path)) is not None:
        return finding
    if (why := why_others_exchange(str(path))) is not None:
        what = f"others may exchange it, since {why}: {shown}"
        return Finding(name, "broken", what, f"namei -l {shlex.quote(str(path))}")
    if not os.access(nearest, os.W_OK | os.X_OK):
        return Finding(name, "broken", f"this user cannot write there: {shown}", f"ls -la {quoted}")
    if shutil.disk_usage(nearest).free < _ROOM_BYTES:
        return Finding(name, "warning", f"the disk is nearly full: {shown}", f"df -h {quoted}")
    return Finding(name, "ok", shown)


def _open_to_others(name: str, path: Path) -> Finding | None:
    """Find what others may do in an existing directory."""
    shown, quoted = printable(path), shlex.quote(str(path))
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & _OTHERS_WRITE:
        return Finding(name, "broken", f"others may write there: {shown}", f"chmod go-w {quoted}")
    if name in _PRIVATE and mode & _OTHERS:
        return Finding(name, "warning", f"others may look into it: {shown}", f"chmod go= {quoted}")
    return None


def check_interpreters(environment: Mapping[str, str]) -> Iterator[Finding]:
    """Whether what runs in the terminal runs in a client too."""
    for name, used_for in INTERPRETERS.items():
        bare = shutil.which(name, path=BARE_PATH)
        here = shutil.which(name, path=environment.get("PATH", ""))
        if bare is not None:
            yield Finding(name, "ok", bare)
        elif here is not None:
            what = f"{here} is on your PATH, and on that of no client with windows: {used_for}"
            hint = f'put "PATH": "{Path(here).parent}:{BARE_PATH}" into "env" of the client\'s configuration'
            yield Finding(name, "warning", what, hint)
        else:
            state: State = "warning" if name in _NEEDED else "ok"
            mended_by = f"install {name}" if name in _NEEDED else None
            yield Finding(name, state, f"not found; it would run {used_for}", mended_by)


def check_clock(app: App, *, now: float | None = None) -> Finding:
    """Whether the clock is behind what was written already: signatures, tokens and certificates go by it."""
    now = time.time() if now is None else now
    known = [Path(__file__), app.spaces.user.root, app.settings.state]
    latest = max((path.stat().st_mtime for path in known if path.exists()), default=0.0)
    if latest > now + _CLOCK_SLACK_S:
        behind = f"the clock is {(latest - now) / 60:.0f} minutes behind files that were written already"
        return Finding("clock", "broken", behind, "timedatectl status")
    return Finding("clock", "ok", time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(now)))


async def check_engines(app: App, *, reach: bool) -> list[Finding]:
    """Whether each engine is as it was signed, and with `reach` whether a worker of it answers."""
    if not (app.spaces.user.root / "tools/engines").is_dir():
        return []
    from rye_mcp.nodes.engines import find_engine, names_of

    engines, findings = app.open_engines(), []
    try:
        for name in names_of(app.spaces.user.root):
            check = f"engine {name}"
            try:
                found = find_engine(name, app.spaces, app.trust)
                said = f"takes {', '.join(found.engine.takes)}"
                if reach:
                    async with engines.reach(found) as reached:
                        said += f"; the node {reached.node.key_id} answers"
                findings.append(Finding(check, "ok", said))
            except RyeError as exc:
                findings.append(Finding.refused(check, exc))
    finally:
        await engines.close()
    return findings


def check_clients(surroundings: Surroundings) -> Iterator[Finding]:
    """Whether the clients that know this server can still start it."""
    for name, client in CLIENTS.items():
        file = client.file(surroundings)
        try:
            document = parse_object(file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue  # not installed, or nothing that can be said without guessing
        for command in _commands(document, client.servers):
            if os.access(command, os.X_OK):
                yield Finding(client.title, "ok", f"starts {command}")
            else:
                what = f"expected a program at {command}, as {printable(file)} says, found none"
                yield Finding(client.title, "broken", what, f"rye install {name}")


def _commands(document: Mapping[str, Any], servers: str) -> Iterator[str]:
    projects = document.get("projects")
    holders = [document, *(projects.values() if isinstance(projects, dict) else ())]
    for holder in holders:
        known = holder.get(servers) if isinstance(holder, dict) else None
        for server in known.values() if isinstance(known, dict) else ():
            command = server.get("command") if isinstance(server, dict) else None
            if isinstance(command, str) and Path(command).name == "rye-mcp" and Path(command).is_absolute():
                yield command
