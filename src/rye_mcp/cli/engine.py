"""`rye engine`: the machines that calls of this user may run on.

An engine is an item of your user space, signed with your key: it says which tools run on which nodes, by the
keys of these. Nothing that a project brings along, or an agent signs, is one.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from lilux import _files as whole_files
from rye_mcp.app import App
from rye_mcp.cli._command_groups import EXIT_FAILED, command_group
from rye_mcp.cli._options import JsonOption, open_app, person
from rye_mcp.cli._printing import print_json, print_table, report, say, warn
from rye_mcp.errors import RyeError
from rye_mcp.files import make_user_space, translated
from rye_mcp.items import ItemType, SpaceName, is_item_id
from rye_mcp.metadata import Engine
from rye_mcp.nodes.engines import DIRECTORY, find_engine, names_of
from rye_mcp.nodes.items import document_key, engine_text, with_nodes
from rye_mcp.verbs.sign import SignRequest, sign
from rye_mcp.visible import visible

__all__ = ["engine"]

engine = command_group("The machines that your calls may run on: engines, their nodes and tools.")

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The name of the engine, such as gpu1.")]
NodesOption = Annotated[
    list[Path],
    typer.Option("--node", metavar="NODE.toml", help="What rye node init printed there. May be repeated."),
]
TakesOption = Annotated[
    list[str],
    typer.Option("--takes", metavar="PATTERN", help="Tools that run there, such as sim/*. May be repeated."),
]


SshOption = Annotated[
    str | None, typer.Option("--ssh", metavar="HOST", help="Reach it as ssh does: HOST, or USER@HOST.")
]
RayOption = Annotated[
    str | None, typer.Option("--ray", metavar="HOST:PORT", help="Reach a Ray cluster, by its head.")
]
HereOption = Annotated[
    str | None,
    typer.Option("--here", metavar="ADDRESS", help="The address of this machine in the Ray cluster."),
]
PythonOption = Annotated[
    Path | None,
    typer.Option("--python", help="A Python on this machine that has ray; by default that of rye."),
]
TokenOption = Annotated[
    Path | None, typer.Option("--token-file", help="The file with the token of the Ray cluster.")
]
WidthOption = Annotated[
    int | None, typer.Option("--width", help="How many calls share a worker on a Ray cluster.")
]
ProgramOption = Annotated[
    str, typer.Option("--program", metavar="PATH", help="The path of rye on those machines.")
]
LabelOption = Annotated[
    list[str] | None,
    typer.Option("--label", metavar="NAME=VALUE", help="For placement. May be repeated."),
]
CpuOption = Annotated[float | None, typer.Option("--cpu", help="Processors that one call may ask for.")]
MemoryOption = Annotated[str | None, typer.Option("--memory", help="Memory, such as 64GiB.")]
GpuOption = Annotated[int | None, typer.Option("--gpu", help="Graphics processors.")]

_PROGRAM: Final = "rye"


@engine.command()
def add(
    name: NameArgument,
    node: NodesOption,
    takes: TakesOption,
    ssh: SshOption = None,
    ray: RayOption = None,
    here: HereOption = None,
    python: PythonOption = None,
    token_file: TokenOption = None,
    width: WidthOption = None,
    program: ProgramOption = _PROGRAM,
    label: LabelOption = None,
    cpu: CpuOption = None,
    memory: MemoryOption = None,
    gpu: GpuOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add an engine, and sign it: a machine over SSH, a Ray cluster, or a worker on this machine."""
    cluster = _given(
        address=ray, here=here, python=_absolute(python), token_file=_absolute(token_file), width=width
    )
    config = _given(
        **_way(ssh, cluster, program),
        nodes=[document_key(path) for path in node],
        takes=takes,
        labels=_labels(label or ()),
        offers=_given(cpu=cpu, memory=memory, gpu=gpu),
    )
    _write(open_app(None), name, config, replace=False)
    if ray is not None and token_file is None:
        warn(f"without --token-file, whoever reaches a port of {ray} may start programs on its nodes")
    _told("added", name, as_json=as_json)


@engine.command("add-node")
def add_node(name: NameArgument, node: NodesOption, as_json: JsonOption = False) -> None:
    """Let an engine have another node, by its key, and sign the engine again."""
    app = open_app(None)
    found = find_engine(name, app.spaces, app.trust)
    config = with_nodes(found.item.file, [document_key(path) for path in node])
    _write(app, name, config, replace=True)
    _told("changed", name, as_json=as_json)


@engine.command()
def remove(name: NameArgument, as_json: JsonOption = False) -> None:
    """Remove an engine: its tools run here again, and those that must not are refused."""
    path = _path(open_app(None), name)
    if not path.is_file():
        raise RyeError("item_not_found", f"expected an engine {name}, found none", hint="rye engine list")
    with translated("write_failed", path):
        path.unlink()
    _told("removed", name, as_json=as_json)


@engine.command("list")
def list_engines(as_json: JsonOption = False) -> None:
    """List the engines: where they lead, which tools they take, and what is wrong with one."""
    app = open_app(None)
    found, problems = [], []
    for name in names_of(app.spaces.user.root):
        try:
            found.append(find_engine(name, app.spaces, app.trust))
        except RyeError as exc:
            problems.append(exc)
    if as_json:
        engines = [
            {
                "name": each.name,
                "via": each.engine.via,
                "host": each.engine.host,
                "address": None if each.engine.cluster is None else each.engine.cluster.address,
                "takes": list(each.engine.takes),
                "nodes": sorted(each.engine.nodes),
                "signer": each.item.signer.as_dict(),
            }
            for each in found
        ]
        print_json({"status": "success", "engines": engines, "problems": [e.as_dict() for e in problems]})
    else:
        _print_engines(found, problems)
    if problems:
        raise typer.Exit(EXIT_FAILED)


@engine.command()
def check(name: NameArgument, as_json: JsonOption = False) -> None:
    """Start a worker of an engine, shake hands, and end it; no call is sent."""
    import anyio

    app = open_app(None)
    found = find_engine(name, app.spaces, app.trust)
    engines = app.open_engines()

    async def reached() -> str:
        try:
            async with engines.reach(found) as reached:
                return reached.node.key_id
        finally:
            with anyio.CancelScope(shield=True):
                await engines.close()

    key_id = anyio.run(reached)
    if as_json:
        print_json({"status": "success", "name": name, "node": key_id})
    else:
        say(f"{name} answers: it has the key {key_id}, which the engine names")


def _print_engines(found: Sequence[Any], problems: Sequence[RyeError]) -> None:
    rows = [
        (
            each.name,
            _via(each.engine),
            ", ".join(each.engine.takes),
            str(len(each.engine.nodes)),
            each.item.signer.in_words,
        )
        for each in found
    ]
    if rows:
        print_table(("ENGINE", "VIA", "TOOLS", "NODES", "SIGNER"), rows)
    elif not problems:
        say("There are no engines: every tool runs on this machine.")
    for problem in problems:
        report(problem)


def _via(engine: Engine) -> str:
    where = engine.host if engine.cluster is None else engine.cluster.address
    return engine.via if where is None else f"{engine.via} {visible(where)}"


def _write(app: App, name: str, config: dict[str, Any], *, replace: bool) -> None:
    """Write an engine into the user space, and sign it; what was there before stays when that fails."""
    path = _path(app, name)
    before = path.read_bytes() if replace else None
    make_user_space(app.spaces.user.root)
    text = engine_text(name, config)
    with translated("write_failed", path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            whole_files.write_whole(path, text.encode(), mode=0o600, replace=replace)
        except FileExistsError as exc:
            what = f"expected no engine {name}, found one"
            raise RyeError("item_exists", what, where=path, hint=f"rye engine remove {name}") from exc
    try:
        sign(SignRequest(f"{DIRECTORY}/{name}", ItemType.TOOL, SpaceName.USER), person(app))
    except BaseException:
        with translated("write_failed", path):
            path.unlink() if before is None else whole_files.write_whole(path, before, mode=0o600)
        raise


def _path(app: App, name: str) -> Path:
    if "/" in name or not is_item_id(name):
        raise RyeError("invalid_id", f"expected a name such as gpu1, found {name!a:.80}")
    return app.spaces.user.root / "tools" / DIRECTORY / f"{name}.yaml"


def _way(host: str | None, cluster: dict[str, Any], program: str) -> dict[str, Any]:
    """How the machines of an engine are reached."""
    if cluster and "address" not in cluster:
        raise typer.BadParameter("expected --here, --python, --token-file and --width beside --ray alone")
    if cluster and host is not None:
        raise typer.BadParameter("expected --ssh or --ray, found both")
    if not cluster and host is None:
        return {"via": "loopback"}
    via = "ray" if cluster else "ssh"
    return {
        "via": via,
        "host": host,
        "cluster": cluster,
        "program": None if program == _PROGRAM else program,
    }


def _labels(given: Sequence[str]) -> dict[str, str]:
    found = dict(each.partition("=")[::2] for each in given)
    if len(found) != len(given) or not all(found.values()):
        raise typer.BadParameter("expected --label NAME=VALUE, each name once")
    return found


def _given(**values: Any) -> dict[str, Any]:
    """Those that have a value."""
    return {name: value for name, value in values.items() if value not in (None, {})}


def _absolute(path: Path | None) -> str | None:
    return None if path is None else str(path.absolute())


def _told(what: str, name: str, *, as_json: bool) -> None:
    if as_json:
        print_json({"status": what, "name": name})
    else:
        say(
            f"{what} the engine {name}"
            + ("" if what == "removed" else f"; try it with: rye engine check {name}")
        )
