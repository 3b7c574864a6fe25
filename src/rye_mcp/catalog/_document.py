"""Says what is indexed of an item: the words of its fields, and the columns that can be filtered by.

It takes bytes and verifies nothing. Items with wrong metadata are indexed by id and body; a library has no
document. Only `MAX_TEXT` characters count, and less of a `brief` document.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from lilux._dataclasses import dataclass
from rye_mcp.errors import RyeError
from rye_mcp.items import ItemFile, ItemType
from rye_mcp.language.words import name_words, words_of
from rye_mcp.metadata import ItemMetadata, body_of, code_of, parse_metadata
from rye_mcp.queries import FIELDS

__all__ = ["FIELD_WEIGHTS", "NAMED", "Document", "documents_of", "words_of_fields"]

NAMED: Final = FIELDS[:3]
"""What an item is called and what it is for."""

FIELD_WEIGHTS: Final = {name: 2 if name in ("name", "title") else 1 for name in FIELDS}
"""How often a word of each field counts."""

MAX_TEXT: Final = 65_536
"""How many characters of the words of an item are indexed."""

MAX_VALUE: Final = 512
"""How long a value can be that results are filtered by, and how many tags an item can have."""

_SHORT: Final = MAX_TEXT // 4
"""Files of so many bytes have fewer words, even if all are names, which are written in their parts, too."""

_MAX_SCHEMA_DEPTH: Final = 6
_FIRST: Final = ("id", "name", "title", "description", "category", "tags", "parameters", "examples", "body")
_OF_A_BRIEF_ONE: Final = frozenset({"id", "name"})


@dataclass(frozen=True, slots=True)
class Document:
    """What is indexed of one item.

    `texts` are the words of each field, in the order of `FIELDS`, with blanks between them, and `words` are
    all of them, each as often as it counts.
    """

    name: str
    texts: tuple[str, ...]
    words: tuple[str, ...]
    category: str
    tags: tuple[str, ...]
    tool_type: str
    executor_id: str
    version: str
    is_destructive: bool
    is_part: bool


def documents_of(files: Sequence[ItemFile], *, brief: bool = False) -> list[Document | None]:
    """What is indexed of each of these items, little of a `brief` one; None for a library.

    All are read before the words of any are taken: a processor is quicker at the same thing ten times.
    """
    every = [_metadata_of(file) for file in files]
    named = _OF_A_BRIEF_ONE if brief else frozenset(FIELDS)
    return [_document_of(file, metadata, named) for file, metadata in zip(files, every, strict=True)]


def words_of_fields(file: ItemFile) -> Mapping[str, Sequence[str]]:
    """The words of each field of an item, as they are indexed."""
    [document] = documents_of([file])
    texts = document.texts if document else [""] * len(FIELDS)
    return {name: text.split() for name, text in zip(FIELDS, texts, strict=True)}


def _metadata_of(file: ItemFile) -> ItemMetadata | None:
    """What an item says about itself, which is its name at least; None for a library."""
    try:
        metadata = parse_metadata(file, keep=False)
    except RyeError:
        return ItemMetadata(name=file.item_id.rpartition("/")[2])
    return None if file.item_type is ItemType.TOOL and metadata.is_library else metadata


def _document_of(file: ItemFile, metadata: ItemMetadata | None, named: frozenset[str]) -> Document | None:
    if metadata is None:
        return None
    fields = dict(zip(FIELDS, _fields(file, metadata), strict=True))
    if len(file.text) > _SHORT or len(named) < len(FIELDS):
        fields = _limited(fields, named)
    return Document(
        name=metadata.name[:MAX_VALUE],
        texts=tuple(" ".join(words) for words in fields.values()),
        words=tuple(_counted(fields)),
        category=(metadata.category or "")[:MAX_VALUE],
        tags=tuple(tag[:MAX_VALUE] for tag in metadata.tags[:MAX_VALUE]) if "tags" in named else (),
        tool_type=metadata.tool_type or "",
        executor_id=(metadata.executor_id or "")[:MAX_VALUE],
        version=metadata.version[:MAX_VALUE],
        is_destructive=(metadata.annotations or {}).get("destructiveHint") is True,
        is_part=metadata.is_runtime or metadata.is_primitive,
    )


def _limited(fields: Mapping[str, list[str]], named: frozenset[str]) -> dict[str, list[str]]:
    """The words of these fields, as far as there is room for them."""
    room, kept = MAX_TEXT, {name: list[str]() for name in fields}
    for name in _FIRST:
        if name in named:
            kept[name] = _fitting(fields[name], room)
            room -= sum(map(len, kept[name])) + len(kept[name])
    return kept


def _fitting(words: list[str], room: int) -> list[str]:
    """As many whole words as fit, with blanks between them."""
    text = " ".join(words)
    return words if len(text) < room else text[: max(0, room)].rpartition(" ")[0].split()


def _fields(file: ItemFile, metadata: ItemMetadata) -> Iterator[list[str]]:
    """The words of each field, in the order of `FIELDS`."""
    title = metadata.extra.get("title") or (metadata.annotations or {}).get("title")
    yield name_words(metadata.name)
    yield words_of(title) if isinstance(title, str) else []
    yield words_of(metadata.description[:MAX_TEXT])
    yield words_of(metadata.category or "")
    yield [word for tag in metadata.tags for word in words_of(tag)]
    yield _parameters(metadata.config_schema) + _parameters(metadata.inputs)
    yield _wishes(metadata.extra.get("examples"))
    code = code_of(file) if file.item_type is ItemType.TOOL else body_of(file)
    yield words_of(code[:MAX_TEXT])
    yield [word for segment in file.item_id.split("/") for word in name_words(segment)]


def _counted(fields: Mapping[str, list[str]]) -> Iterator[str]:
    named = frozenset(fields["name"])  # a name comes again in the id, and counts once
    for name, words in fields.items():
        once = [word for word in words if word not in named] if name == "id" else words
        yield from once * FIELD_WEIGHTS[name]


def _parameters(schema: Any, depth: int = 0) -> list[str]:
    """The names of parameters, and what is said about each, as deep as a person would read."""
    if isinstance(schema, list):
        return [word for name in schema for word in name_words(name)]
    if not isinstance(schema, dict) or depth > _MAX_SCHEMA_DEPTH:
        return []
    found: list[str] = []
    # The title of the whole is mostly one that a program made up.
    for key in ("title", "description") if depth else ("description",):
        if isinstance(text := schema.get(key), str):
            found += words_of(text)
    properties = schema.get("properties")
    for name, below in properties.items() if isinstance(properties, dict) else ():
        found += name_words(name)
        found += _parameters(below, depth + 1)
    if isinstance(items := schema.get("items"), dict):
        found += _parameters(items, depth + 1)
    return found


def _wishes(examples: Any) -> list[str]:
    """The words of what the example calls are for."""
    listed = examples if isinstance(examples, list) else []
    texts = [each.get("description") for each in listed if isinstance(each, dict)]
    return [word for text in texts if isinstance(text, str) for word in words_of(text[:MAX_TEXT])]
