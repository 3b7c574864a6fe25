"""Skills over MCP: the extension `io.modelcontextprotocol/skills` (SEP-2640), and skills as prompts.

What is offered passes the gate, and each entry is made of what was verified. The bytes of a file reach a
client as they are, because it compares their digest: as text if nothing in it hides, else as a blob.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote

from mcp.server.extension import Extension, MethodBinding
from mcp.server.lowlevel.helper_types import ReadResourceContents
from mcp.types import PaginatedRequestParams, Prompt, RequestParams, Resource

from lilux._dataclasses import dataclass
from rye_mcp.apart import apart
from rye_mcp.errors import RyeError
from rye_mcp.items import SKILL_TEXT, ItemFile, ItemType
from rye_mcp.mcp_server.listings import Listed, entries, page_of
from rye_mcp.mcp_server.requests import protocol_error
from rye_mcp.visible import find_hidden, visible, visible_lines

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from rye_mcp.app import App
    from rye_mcp.mcp_server.listings import Listings
    from rye_mcp.mcp_server.projects import OpenProjects
    from rye_mcp.verbs.offers import Offer

__all__ = [
    "SCHEME",
    "SkillsExtension",
    "address_in",
    "list_skills",
    "prompt_of",
    "prompt_text",
    "read_skill_resource",
    "resource_of",
    "skill_offers",
]

SCHEME: Final = "skill://"
"""What the addresses of skills begin with."""

CACHED: Final[Mapping[str, Any]] = {"ttlMs": 60_000, "cacheScope": "private"}
"""For how long a client of 2026 may take an answer for current."""

_MODERN: Final = "2026-07-28"
_DIRECTORY_TYPE: Final = "inode/directory"
_MARKDOWN: Final = "text/markdown"


@dataclass(frozen=True, slots=True)
class Skill:
    """The entry of a skill, as the extension has it."""

    uri: str
    frontmatter: Mapping[str, Any]
    resources: tuple[Mapping[str, Any], ...]

    def as_dict(self) -> dict[str, Any]:
        """Return it as data."""
        return {"uri": self.uri, "frontmatter": dict(self.frontmatter), "resources": [*self.resources]}

    def model_dump_json(self, **_: bool) -> str:
        """Return it as JSON, as the entries of other lists do."""
        return json.dumps(self.as_dict(), ensure_ascii=False, separators=(",", ":"))


class _AddressParams(RequestParams):
    uri: str
    cursor: str | None = None


class SkillsExtension(Extension):
    """The methods of the extension, for one server."""

    identifier = "io.modelcontextprotocol/skills"

    def __init__(self) -> None:
        self._apps: OpenProjects | None = None
        self._listings: Listings | None = None

    def serve(self, apps: OpenProjects, listings: Listings) -> None:
        """Answer from now on, of these projects."""
        self._apps, self._listings = apps, listings

    def settings(self) -> dict[str, Any]:
        """Say that directories can be read."""
        return {"directoryRead": True}

    def methods(self) -> tuple[MethodBinding, ...]:
        """Return the three methods."""
        return (
            MethodBinding("skills/list", PaginatedRequestParams, self._list),
            MethodBinding("skills/get", _AddressParams, self._get),
            MethodBinding("resources/directory/read", _AddressParams, self._read_directory),
        )

    async def _list(self, context: Any, params: PaginatedRequestParams) -> dict[str, Any]:
        with protocol_error():
            listed = await self._watched(lambda listings, app: listings.skills(app))
            page, following = page_of(listed, params.cursor, "skills")
        answer: dict[str, Any] = {"skills": [entry.as_dict() for entry in page]}
        return _cached(answer | ({} if following is None else {"nextCursor": following}), context)

    async def _get(self, context: Any, params: _AddressParams) -> dict[str, Any]:
        with protocol_error(uri=params.uri):
            app = await self._app()
            entry = await apart(partial(_entry_at, app, params.uri))
        return _cached({"skill": entry.as_dict()}, context)

    async def _read_directory(self, _: Any, params: _AddressParams) -> dict[str, Any]:
        with protocol_error(uri=params.uri):
            if params.cursor:
                what = "expected no cursor, as a directory of a skill fits on one page, found one"
                raise RyeError("invalid_parameters", what, hint="begin again without a cursor")
            app = await self._app()
            children = await apart(partial(_children, app, params.uri))
        return {"resources": [each.model_dump(by_alias=True, exclude_none=True) for each in children]}

    async def _app(self) -> App:
        assert self._apps is not None  # noqa: S101 - for the type checker: it serves before it is asked
        return await self._apps.own()

    async def _watched(
        self, listing: Callable[[Listings, App], Awaitable[list[Listed[Any]]]]
    ) -> list[Listed[Any]]:
        assert self._listings is not None  # noqa: S101 - for the type checker: it serves before it is asked
        try:
            app = await self._app()
        except RyeError:
            return []  # every call says why
        self._listings.watch(app)
        return await listing(self._listings, app)


def _cached(answer: dict[str, Any], context: Any) -> dict[str, Any]:
    """The answer, with what clients of 2026 have to be told of its age."""
    return {**answer, **CACHED} if context.protocol_version >= _MODERN else answer


# --- what there is ---


def skill_offers(app: App) -> tuple[Offer, ...]:
    """Every skill that passes the gate."""
    from rye_mcp.verbs.offers import OffersRequest, offers

    return offers(OffersRequest(item_type=ItemType.SKILL), app.context()).items


def list_skills(app: App) -> list[Listed[Skill]]:
    """The entry of every skill that passes the gate."""
    return entries(skill_offers(app), lambda offer: _entry(offer.item.file))


def _entry(file: ItemFile) -> Skill:
    from rye_mcp.metadata import front_matter

    files = {} if file.skill is None else file.skill.files
    listed = tuple(
        {"uri": address_in(file.item_id, path), "digest": f"sha256:{each.digest}", "size": each.size}
        for path, each in sorted(files.items())
    )
    return Skill(address_in(file.item_id, SKILL_TEXT), front_matter(file), listed)


def address_in(name: str, path: str) -> str:
    """The address of a file of a skill."""
    return f"{SCHEME}{name}/{quote(path)}"


def resource_of(offer: Offer) -> Resource:
    """The text of a skill as a resource; the hash lets a list tell when another file has changed."""
    file = offer.item.file
    return Resource(
        uri=address_in(file.item_id, SKILL_TEXT),
        name=file.item_id,
        description=visible_lines(offer.metadata.description) or None,
        mime_type=_MARKDOWN,
        size=len(file.text),
        _meta={"rye/hash": offer.item.digest, "rye/signer": offer.item.signer.as_dict()},
    )


def prompt_of(name: str, offer: Offer) -> Prompt:
    """A skill for clients that know no skills."""
    return Prompt(name=name, title=offer.item_id, description=visible_lines(offer.metadata.description))


def prompt_text(file: ItemFile) -> str:
    """What a skill says to do, and how its other files are read."""
    from rye_mcp.metadata import body_of

    text = visible_lines(body_of(file))
    others = sorted(path for path in (file.skill.files if file.skill else ()) if path != SKILL_TEXT)
    if not others:
        return text
    listed = "\n".join(f"- {visible(path)}" for path in others)
    how = f'call load with item_id "{file.item_id}", item_type "skill" and its path as file'
    return f"{text}\n\nFiles of this skill; to read one, {how}:\n{listed}\n"


# --- what stands at an address ---


def _verified(app: App, address: str) -> tuple[ItemFile, str]:
    """The skill that an address is of, and the path there; RyeError for none, and for one that is refused."""
    name, _, path = address.removeprefix(SCHEME).partition("/")
    if not address.startswith(SCHEME) or not name:
        raise _nothing_at(address)
    context = app.context()
    try:
        return context.verify(context.spaces.find(unquote(name), ItemType.SKILL).item).file, unquote(path)
    except RyeError as exc:
        if exc.code in ("invalid_id", "item_not_found"):
            raise _nothing_at(address) from exc
        raise


def _nothing_at(address: str) -> RyeError:
    what = f"expected the address of a skill, such as skill://NAME/SKILL.md, found {visible(address[:80])!r}"
    return RyeError("item_not_found", what, hint="skills/list names them")


def _entry_at(app: App, address: str) -> Skill:
    file, path = _verified(app, address)
    if path != SKILL_TEXT:
        raise _nothing_at(address)
    return _entry(file)


def _children(app: App, address: str) -> list[Resource]:
    """What stands in a directory of a skill."""
    file, directory = _verified(app, address)
    prefix = f"{directory}/" if directory else ""
    files = {} if file.skill is None else file.skill.files
    below = [path.removeprefix(prefix) for path in files if path.startswith(prefix)]
    if not below or address.endswith("/"):
        what = f"expected a directory of a skill, found {visible(address[:80])!r}"
        raise RyeError("item_not_found", what, hint="skills/get names its files")
    names = sorted({path.partition("/")[0] for path in below})
    return [_child(file, prefix + name, is_file=prefix + name in files) for name in names]


def _child(file: ItemFile, path: str, *, is_file: bool) -> Resource:
    from rye_mcp.runs.results import media_type_of

    name = path.rpartition("/")[2]
    size = file.skill.files[path].size if is_file and file.skill is not None else None
    kind = media_type_of(name, b"") if is_file else _DIRECTORY_TYPE
    return Resource(uri=address_in(file.item_id, path), name=name, mime_type=kind, size=size)


def read_skill_resource(app: App, address: str) -> ReadResourceContents:
    """A file of a skill, byte for byte."""
    from rye_mcp.runs.results import media_type_of
    from rye_mcp.spaces import read_skill_file

    file, path = _verified(app, address)
    content = read_skill_file(file, path).content
    kind = media_type_of(path, content[:1024])
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        return ReadResourceContents(content=content, mime_type=kind)
    is_seen = "\0" not in text and find_hidden(text.replace("\r\n", "\n")) is None
    return ReadResourceContents(content=text if is_seen else content, mime_type=kind)
