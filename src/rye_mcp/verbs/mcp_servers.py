"""Tools of other MCP servers as items: written and signed by a person, compared with the server, removed.

Everything is drafted and signed before the first file is written; an invalid tool is left out and reported.
`add` replaces nothing, `update` only what it has read. Nothing here connects to a server.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from fnmatch import fnmatchcase
from functools import reduce
from types import MappingProxyType
from typing import Any, Final

from lilux._dataclasses import dataclass
from rye_mcp.bridge.definitions import (
    DIRECTORY,
    RUNTIMES,
    Definition,
    approved_parts,
    difference,
    ids_of,
    item_text,
    patterns_of,
    whole,
)
from rye_mcp.errors import RyeError, printable
from rye_mcp.executor.chain.builder import ChainElement, MetadataRole
from rye_mcp.executor.environment.variables import looks_secret, secret_among
from rye_mcp.files import Tree, translated
from rye_mcp.items import ItemFile, ItemPlace, ItemType, Space, SpaceName, is_item_id, relative_path
from rye_mcp.metadata import ItemMetadata, examine, parse_metadata
from rye_mcp.permissions import Permissions, Requirement
from rye_mcp.trust.keys import SigningKey
from rye_mcp.trust.scope import SignerKind
from rye_mcp.trust.sign import sign_content, write_item
from rye_mcp.trust.verify import verify_item
from rye_mcp.verbs._chains import Chains
from rye_mcp.verbs._selection import select
from rye_mcp.verbs.context import Context

__all__ = [
    "Comparison",
    "Known",
    "LeftOut",
    "ServerPlan",
    "Written",
    "add",
    "compare",
    "known_servers",
    "remove",
    "require_server_name",
    "signing_key",
    "update",
    "whole_config",
]

EXTENSION: Final = ".yaml"
_FILE_MODE: Final = 0o644
_DIRECTORY_MODE: Final = 0o755
_REFERENCE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)")


@dataclass(frozen=True, slots=True)
class ServerPlan:
    """A server that is to be brought in: `config` is what its tools say of it, with templates."""

    name: str
    config: Mapping[str, Any]
    space: SpaceName = SpaceName.PROJECT
    only: tuple[str, ...] = ()
    allowed: Permissions | None = None
    """The rights of the server, beside seeing the variables that it is given. None leaves them undeclared."""

    @property
    def variables(self) -> frozenset[str]:
        """The variables that its texts ask for."""
        texts = [*self.config.get("env", {}).values(), *self.config.get("headers", {}).values()]
        texts += [*self.config.get("args", ()), self.config.get("url", "")]
        return _references(texts)

    def declared(self, more: Iterable[str] = ()) -> Permissions | None:
        """Return the permissions that its items declare; `more` are variables that they may see as well."""
        env = self.variables | frozenset(more)
        if self.allowed is None:
            return Permissions(env=env) if env else None
        found = replace(self.allowed, env=self.allowed.env | env)
        # Items that name variables alone are older than permissions, and leave unsaid what a server may do.
        return replace(found, require=Requirement.WALLS) if found.names_env_alone else found


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A tool that cannot be an item, and why."""

    tool: str
    error: RyeError


@dataclass(frozen=True, slots=True)
class Written:
    """The items that were written and signed, by id, and those that were not."""

    item_ids: tuple[str, ...]
    left_out: tuple[LeftOut, ...] = ()
    removed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Known:
    """A server with tools in a space, as far as these pass the gate."""

    name: str
    space: Space
    items: Mapping[str, tuple[ItemFile, ItemMetadata]] = field(default_factory=dict)
    refused: tuple[RyeError, ...] = ()

    @property
    def config(self) -> Mapping[str, Any]:
        """The server's configuration, from its tools; RyeError when none of them is authentic."""
        for _, metadata in self.items.values():
            own = {name: value for name, value in (metadata.config or {}).items() if name not in _OF_TOOL}
            return {**own, "transport": _transport(metadata)}
        what = f"expected a tool of the server {self.name} that passes the gate, found none"
        raise (
            self.refused or (RyeError("item_not_found", what, hint=f"rye list {DIRECTORY}/{self.name}/*"),)
        )[0]

    @property
    def plan(self) -> ServerPlan:
        """The plan of the server, from its items; RyeError when none of them is authentic."""
        return ServerPlan(self.name, self.config, self.space.name, self.only, self.permissions)

    @property
    def only(self) -> tuple[str, ...]:
        """The patterns that every tool of it was chosen by; none where one was chosen without any."""
        chosen = [patterns_of(metadata) for _, metadata in self.items.values()]
        return tuple(dict.fromkeys(each for one in chosen for each in one)) if all(chosen) else ()

    @property
    def permitted(self) -> frozenset[str]:
        """The variables that its tools may see."""
        return frozenset(name for _, metadata in self.items.values() for name in metadata.permitted_env)

    @property
    def permissions(self) -> Permissions | None:
        """The server's permissions over all of its tools; None where one of them declares none."""
        said = [metadata.permissions for _, metadata in self.items.values()]
        declared = [each for each in said if each is not None and not each.names_env_alone]
        return reduce(Permissions.meet, declared) if declared and len(declared) == len(said) else None


@dataclass(frozen=True, slots=True)
class Comparison:
    """The server's tools now, beside the approved ones: diffs by tool, new tools whole, and names.

    `only` are the patterns that new tools had to match. `permissions` are other ones than the server has.
    """

    changed: Mapping[str, list[str]]
    added: Mapping[str, list[str]]
    gone: tuple[str, ...]
    only: tuple[str, ...] = ()
    permissions: Permissions | None = None

    @property
    def is_none(self) -> bool:
        """Whether nothing has changed."""
        return not (self.changed or self.added or self.gone) and self.permissions is None


_OF_TOOL: Final = frozenset({"tool", "definition"})


# --- what a server is called, and what it is given ---


def _references(texts: Iterable[str]) -> frozenset[str]:
    """The variables that texts ask for."""
    return frozenset(name for text in texts for name in _REFERENCE.findall(text))


def require_server_name(name: str) -> str:
    """The name, when it can be a part of an id."""
    if is_item_id(name) and "/" not in name:
        return name
    what = f"expected a name of A-Z a-z 0-9 _ . - for the server, found {name[:80]!r}"
    raise RyeError("invalid_id", what, hint="rye mcp add NAME -- COMMAND")


def whole_config(config: Mapping[str, Any], context: Context) -> dict[str, Any]:
    """The configuration with what its runtime adds, which has passed the gate; no secret in its command."""
    secret = sorted(name for name in _references(config.get("args", ())) if looks_secret(name))
    if secret:
        what = f"expected no secret in a command line, which others can read, found ${{{secret[0]}}}"
        raise RyeError("invalid_item", what, hint=f"pass it as a variable: --env {secret[0]}")
    _require_no_literal_secret(config)
    found = context.spaces.find_executor(RUNTIMES[config["transport"]], seen_from=SpaceName.SYSTEM)
    runtime = dict(context.metadata(context.verify(found.item)).config or {})
    env = {**runtime.get("env", {}), **config.get("env", {})}
    return {**runtime, **config, **({"env": env} if env else {})}


def _require_no_literal_secret(config: Mapping[str, Any]) -> None:
    """A secret as it is would stand in a file that is signed, shared and shown."""
    is_http = config["transport"] == "http"
    where = secret_among([config["url"]] if is_http else config.get("args", ()))
    if where is not None:
        what = f"expected no secret in what starts or names the server, found one: {where[:80]}"
        how = "--header 'Name: ${VARIABLE}'" if is_http else "--env NAME, which the server has to read"
        raise RyeError("invalid_item", what, hint=f"pass it as a variable: {how}")


def signing_key(context: Context) -> SigningKey:
    """The person's key; a passphrase is asked for where there is somebody to ask."""
    if not context.is_person:
        what = "expected a person to bring in a server, found an agent"
        raise RyeError("person_required", what)
    try:
        return context.keys.load(SignerKind.PERSON)
    except RyeError as exc:
        if exc.code != "passphrase_required" or context.ask_passphrase is None:
            raise
        return context.keys.load(SignerKind.PERSON, passphrase=context.ask_passphrase())


# --- adding, comparing, updating, removing ---


def add(plan: ServerPlan, offered: Mapping[str, Definition], context: Context, key: SigningKey) -> Written:
    """Write and sign an item for each tool; RyeError `item_exists` when there are some already."""
    pattern = f"{DIRECTORY}/{plan.name}/*"
    there = select(context.spaces, pattern, names=[plan.space], types=[ItemType.TOOL])
    if there.places or there.refused:
        what = f"expected no tools of a server {plan.name} in the {plan.space} space, found some"
        raise RyeError("item_exists", what, hint=f"rye mcp update {plan.name}, or rye mcp remove {plan.name}")
    chosen = {name: said for name, said in offered.items() if _is_chosen(name, plan.only)}
    if not chosen:
        what = f"expected the server {plan.name} to offer tools, found none of them"
        raise RyeError("item_not_found", what, hint="look at --only, and at the server")
    drafts, left_out = _drafts(plan, chosen, context, key, ids=ids_of(plan.name, offered))
    _write_new(drafts)
    for file in drafts:
        _move_lock(file, context)
    return Written(tuple(sorted(file.item_id for file in drafts)), left_out)


def compare(
    known: Known,
    offered: Mapping[str, Definition],
    only: tuple[str, ...] = (),
    permissions: Permissions | None = None,
) -> Comparison:
    """Compare the server's tools with its items; `only` is by default the selection they were added with.

    `permissions` are those that it is to have from now on, None for those that it has.
    """
    only = only or known.only
    approved = {_tool(metadata): metadata for _, metadata in known.items.values()}
    new = sorted(name for name in offered.keys() - approved.keys() if _is_chosen(name, only))
    added = {name: whole(offered[name].parts) for name in new}
    gone = tuple(sorted(approved.keys() - offered.keys()))
    plan = ServerPlan(known.name, known.config, allowed=permissions)
    said = {metadata.permissions for metadata in approved.values()}
    is_other = permissions is not None and said != {plan.declared(known.permitted)}
    return Comparison(_changed(approved, offered), added, gone, only, permissions if is_other else None)


def _changed(approved: Mapping[str, ItemMetadata], offered: Mapping[str, Definition]) -> dict[str, list[str]]:
    """The difference of each tool whose definition is not the approved one."""
    return {
        name: difference(approved_parts(metadata, name), offered[name].parts)
        for name, metadata in approved.items()
        if name in offered and offered[name].digest != (metadata.config or {}).get("definition")
    }


def update(
    known: Known, comparison: Comparison, offered: Mapping[str, Definition], context: Context, key: SigningKey
) -> Written:
    """Sign what a person has looked at: what changed or is new is written, what is gone is removed."""
    permissions = known.permissions if comparison.permissions is None else comparison.permissions
    plan = replace(known.plan, only=comparison.only, allowed=permissions)
    again = () if comparison.permissions is None else _tool_ids(known).keys() & offered.keys()
    wanted = {name: offered[name] for name in (*comparison.changed, *comparison.added, *again)}
    ids = {**ids_of(known.name, offered), **_tool_ids(known)}
    holders = {item_id: name for name, item_id in _tool_ids(known).items()}
    drafts, left_out = _drafts(plan, wanted, context, key, ids=ids, holders=holders, more=known.permitted)
    _write_all(drafts, known, context)
    removed = _remove([file for file, metadata in known.items.values() if _tool(metadata) in comparison.gone])
    return Written(tuple(sorted(file.item_id for file in drafts)), left_out, tuple(sorted(removed)))


def _write_all(drafts: Sequence[ItemFile], known: Known, context: Context) -> None:
    """Write new items and replace known ones, whose lockfiles follow."""
    _write_new([file for file in drafts if file.item_id not in known.items])
    for file in drafts:
        if file.item_id in known.items:
            write_item(known.items[file.item_id][0], file.content)
            _move_lock(file, context)


def remove(name: str, space: SpaceName, context: Context) -> tuple[str, ...]:
    """Remove every tool of a server from a space; the ids that were there."""
    places = select(context.spaces, f"{DIRECTORY}/{name}/*", names=[space], types=[ItemType.TOOL]).places
    read = [context.spaces.read(place) for place in places]
    files = [file for file in read if _is_of_server(file)]
    if not files:
        what = f"expected tools of a server {name} in the {space} space, found none"
        raise RyeError("item_not_found", what, hint="rye mcp list")
    return _remove(files)


def _remove(files: Iterable[ItemFile]) -> tuple[str, ...]:
    """Remove files; the ids that were there."""
    removed = []
    for file in files:
        _unlink(file)
        removed.append(file.item_id)
    return tuple(removed)


def known_servers(context: Context, spaces: Iterable[SpaceName], name: str = "*") -> list[Known]:
    """The servers that have tools, by name; a claim that no person has signed is shown, but not believed."""
    found: list[Known] = []
    for space in spaces:
        places = select(context.spaces, f"{DIRECTORY}/{name}/*", names=[space], types=[ItemType.TOOL]).places
        by_server: dict[str, list[ItemPlace]] = {}
        for place in places:
            by_server.setdefault(place.item_id.split("/")[1], []).append(place)
        found += [_known(server, by_server[server], context) for server in sorted(by_server)]
    return found


def _known(server: str, places: list[ItemPlace], context: Context) -> Known:
    items: dict[str, tuple[ItemFile, ItemMetadata]] = {}
    refused: list[RyeError] = []
    for place in places:
        try:
            verified = context.verify(context.spaces.read(place))
            metadata = context.metadata(verified)
            if metadata.executor_id not in RUNTIMES.values():
                continue
            # What an agent has signed starts no program here: this runs with all that the person may see.
            if verified.signer.kind is not SignerKind.PERSON:
                what = f"expected {place.item_id} to be signed by a person, found an agent's signature"
                raise RyeError("out_of_scope", what, where=place.path, item_id=place.item_id)
        except RyeError as exc:
            refused.append(exc)
        else:
            items[place.item_id] = (verified.file, metadata)
    return Known(server, places[0].space, items, tuple(refused))


# --- drafts ---


def _drafts(
    plan: ServerPlan,
    chosen: Mapping[str, Definition],
    context: Context,
    key: SigningKey,
    *,
    ids: Mapping[str, str],
    holders: Mapping[str, str] = MappingProxyType({}),
    more: frozenset[str] = frozenset(),
) -> tuple[list[ItemFile], tuple[LeftOut, ...]]:
    """A signed item for each tool, in memory, and those that can be none.

    `holders` are ids with the tools that have them: no other tool gets one.
    """
    space = context.spaces.space(plan.space)
    tool_of = {item_id.lower(): name for item_id, name in holders.items()}
    drafts: list[ItemFile] = []
    left_out: list[LeftOut] = []
    for name, said in sorted(chosen.items()):
        try:
            _require_own_id(name, ids[name], tool_of.setdefault(ids[name].lower(), name))
            drafts.append(_signed(_draft(ids[name], said, plan, space, more), context, key))
        except RyeError as exc:
            left_out.append(LeftOut(name, exc))
    if not drafts and left_out:
        raise left_out[0].error
    return drafts, tuple(left_out)


def _require_own_id(name: str, item_id: str, holder: str) -> None:
    """A server chooses the names of its tools, and with them the ids: two may get the same one."""
    if holder != name:
        what = f"expected an id of its own for the tool {name}, found that of {holder}: {item_id}"
        raise RyeError("item_exists", what, item_id=item_id, hint="the server has to call it otherwise")


def _draft(item_id: str, said: Definition, plan: ServerPlan, space: Space, more: frozenset[str]) -> ItemFile:
    if said.problem is not None:
        what = f"expected a tool as MCP has it, found: {said.problem}"
        raise RyeError("invalid_item", what, item_id=item_id, hint="the server has to say it otherwise")
    path = space.root / relative_path(ItemType.TOOL, item_id, EXTENSION)
    try:
        config = {**plan.config, "server": plan.name}
        content = item_text(said, config, plan.declared(more), only=plan.only).encode()
    except (UnicodeEncodeError, ValueError) as exc:
        what = f"expected text that a file can hold in what the server says of it, found: {exc}"
        raise RyeError("not_text", what, item_id=item_id) from exc
    return ItemFile(space, ItemType.TOOL, item_id, EXTENSION, path, content)


def _signed(file: ItemFile, context: Context, key: SigningKey) -> ItemFile:
    """The draft with a signature that passes the gate, when it says what the server said."""
    metadata = examine(file)
    approved = Definition.of(approved_parts(metadata, _tool(metadata)))
    if approved.digest != (metadata.config or {}).get("definition"):
        what = f"expected {file.item_id} to hold exactly what the server says, found that YAML cannot"
        raise RyeError("invalid_item", what, item_id=file.item_id, hint="leave it out with --only")
    signed = ItemFile(
        file.space, file.item_type, file.item_id, file.extension, file.path, sign_content(file, key)
    )
    return verify_item(signed, context.trust, role=MetadataRole.of(signed)).file


def _write_new(files: Iterable[ItemFile]) -> None:
    """All of them, or none."""
    written: list[ItemFile] = []
    try:
        for file in files:
            _write(file)
            written.append(file)
    except BaseException:
        for file in written:
            _unlink(file)
        raise


def _write(file: ItemFile) -> None:
    relative = relative_path(file.item_type, file.item_id, file.extension)
    try:
        Tree(file.space.root).write(
            relative, file.content, mode=_FILE_MODE, replace=False, create_mode=_DIRECTORY_MODE
        )
    except FileExistsError as exc:
        shown = printable(file.path)
        raise RyeError("item_exists", f"expected no {shown}, found one", where=shown) from exc


def _unlink(file: ItemFile) -> None:
    relative = relative_path(file.item_type, file.item_id, file.extension)
    above, _, name = relative.rpartition("/")
    with translated("write_failed", file.path), Tree(file.space.root).opened(above) as directory:
        os.unlink(name, dir_fd=directory)


def _move_lock(file: ItemFile, context: Context) -> None:
    """Let the lockfile follow, as it does for every item that is signed again."""
    chains = Chains(context)
    try:
        valid = chains.follow(ChainElement(file, examine(file)))
    except RyeError:
        return  # it would be refused when it runs, and says why then
    chains.refresh(valid, valid.verified.root)


def _is_chosen(name: str, only: tuple[str, ...]) -> bool:
    return not only or any(fnmatchcase(name, pattern) for pattern in only)


def _is_of_server(file: ItemFile) -> bool:
    """Whether it is one of ours to remove, signed or not: what somebody else put there stays."""
    try:
        return parse_metadata(file).executor_id in RUNTIMES.values()
    except RyeError:
        return False


def _tool(metadata: ItemMetadata) -> str:
    return str((metadata.config or {}).get("tool", ""))


def _tool_ids(known: Known) -> dict[str, str]:
    return {_tool(metadata): item_id for item_id, (_, metadata) in known.items.items()}


def _transport(metadata: ItemMetadata) -> str:
    return next(name for name, runtime in RUNTIMES.items() if runtime == metadata.executor_id)
