"""Warnings about a tool that was just signed: what it will probably miss, or suffer, when it runs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any, Final

from rye_mcp.errors import RyeError
from rye_mcp.executor.chain.builder import Chain, ChainElement
from rye_mcp.executor.chain.companions import mentioned_companions, placeholders_in_shell
from rye_mcp.executor.chain.files import BundledFiles
from rye_mcp.items import ItemFile, ItemType, printable
from rye_mcp.metadata import ItemMetadata, examples_of, how_to_name_an_executor, misspelt, parse_metadata
from rye_mcp.notices import Notice
from rye_mcp.permissions import Permissions, phrases, taken_to_declare
from rye_mcp.spaces.source_tree import SourceTree
from rye_mcp.verbs._skill_writing import files_of
from rye_mcp.verbs.context import Context
from rye_mcp.verbs.skill_review import review
from rye_mcp.visible import visible

__all__ = [
    "about_calls",
    "cannot_run",
    "examples_that_do_not_fit",
    "in_shell",
    "lacks_wishes",
    "misspelt_fields",
    "named_secrets",
    "not_carried",
    "to_look_at",
    "unknown_keywords_in",
]

_SHOWN: Final = 10
_FIELDS: Final = ("command", "args", "shell")
_SCHEMAS: Final = ("config_schema", "output_schema", "inputs", "outputs")


def cannot_run(file: ItemFile, metadata: ItemMetadata) -> Iterator[Notice]:
    """A script that names nothing that runs it, though there is something."""
    if file.item_type is ItemType.TOOL and metadata.is_library:
        how = how_to_name_an_executor(file, metadata)
        if how is not None:
            what = f"{file.item_id} cannot be run, as it names no executor"
            yield Notice("not_runnable", f"{what}: if it is to run, {how}, and sign it again")


def misspelt_fields(file: ItemFile) -> Iterator[Notice]:
    """Names that mean nothing, and are nearly those of fields; with their lines in this very file."""
    return (Notice("unknown_field", str(each)) for each in misspelt(file))


def named_secrets(file: ItemFile, metadata: ItemMetadata) -> Iterator[Notice]:
    """Warn of the secrets that a tool gets from the user's store, now that a person has signed it."""
    if metadata.named_secrets:
        what = f"{file.item_id} gets {', '.join(metadata.named_secrets)} of your store of secrets"
        yield Notice("secrets_named", what)


_OF_LITTLE_WEIGHT: Final = frozenset({"url", "script"})


def to_look_at(file: ItemFile) -> Iterator[Notice]:
    """Say how much there is to look at in a skill, now that a person vouches for it."""
    if file.skill is None:
        return
    found = review(file, {path: each.content for path, each in files_of(file).items()})
    grave = {kind: count for kind, count in found.counts.items() if kind not in _OF_LITTLE_WEIGHT}
    if grave:
        listed = ", ".join(f"{count} {kind}" for kind, count in grave.items())
        what = f"{file.item_id} has {listed}; if you have not looked at them: rye skill review {file.item_id}"
        yield Notice("look_at", what)


def about_calls(file: ItemFile, metadata: ItemMetadata, context: Context) -> Iterator[Notice]:
    """Warn of tools in `permissions.calls` of a program that are in no space, or may do more than it."""
    own = metadata.permissions
    further: list[str] = []
    for called in sorted(() if own is None else own.calls):
        if called.endswith("/*"):
            continue
        try:
            item = context.spaces.find(called, ItemType.TOOL).item
            signer = context.verify(item).signer.kind
            declares = taken_to_declare(parse_metadata(item).permissions, signer)
        except RyeError as exc:
            if exc.code == "item_not_found":
                what = f"{file.item_id} calls {called}, which is in no space"
                yield Notice(
                    "call_not_found", f"{what}: correct the id in permissions.calls, or add the tool"
                )
            continue
        more = replace(declares, calls=frozenset()).beyond(own or Permissions())
        if more != Permissions():
            further.append(f"{called} {', '.join(phrases(more))}")
    if further:
        left = f"; and {len(further) - _SHOWN} more" if len(further) > _SHOWN else ""
        what = f"{file.item_id} calls tools that may do more than itself: {'; '.join(further[:_SHOWN])}{left}"
        yield Notice("calls_reach_further", what)


def not_carried(root: ChainElement, carried: BundledFiles) -> Iterator[Notice]:
    """The files beside a tool that its code names, and that will not be there."""
    directory, there = carried.tool.relative.rpartition("/")[0], {file.relative for file in carried.files}
    try:
        with SourceTree(root.file.space.root) as tree:
            named = mentioned_companions(root.file.content, root.file.extension, directory, tree)
    except RyeError:
        return  # a link in the way, say: it is no file that could be carried
    absent = [each.removeprefix(f"{directory}/") for each in named if each not in there]
    hiding = list(filter(_hides_a_module_of_python, absent))
    yield from _missing(root.item_id, hiding, [each for each in absent if each not in hiding])


def _missing(item_id: str, hiding: list[str], missing: list[str]) -> Iterator[Notice]:
    if hiding:
        shown = ", ".join(map(printable, hiding[:_SHOWN]))
        what = f"{item_id} gets the modules of Python itself, not {shown} beside it"
        yield Notice("not_carried", f"{what}: if you mean that file, rename it")
    if missing:
        shown = ", ".join(map(printable, missing[:_SHOWN]))
        options = " ".join(f"--with {printable(each)}" for each in missing[:_SHOWN])
        what = f"{item_id} names {shown}, which will not be there when it runs"
        yield Notice("not_carried", f"{what}: rye sign {item_id} {options}")


def _hides_a_module_of_python(path: str) -> bool:
    """Whether a file beside a tool has the name of a module of Python, and may be there to be signed."""
    first, _, _ = path.partition("/")
    return path.endswith(".py") and first.removesuffix(".py") in sys.stdlib_module_names


def examples_that_do_not_fit(file: ItemFile, metadata: ItemMetadata) -> Iterator[Notice]:
    """Examples whose parameters the tool's own schema refuses, unless that is what they are to show."""
    if metadata.config_schema is None or not metadata.extra.get("examples"):
        return
    from lilux.schemas.schema_validator import validate_parameters

    for number, example in enumerate(examples_of(file)):
        errors = validate_parameters(dict(example.parameters), metadata.config_schema).errors
        if errors and example.expected_code != "invalid_parameters":
            what = f"examples[{number}].parameters do not fit the schema of {file.item_id}: {errors[0]}"
            yield Notice("example_invalid", what)


def lacks_wishes(file: ItemFile) -> bool:
    """Whether a tool that is run has examples, but none that says what it is for."""
    examples = examples_of(file) if parse_metadata(file).is_run else ()
    return bool(examples) and not any(example.description for example in examples)


def unknown_keywords_in(metadata: ItemMetadata) -> Iterator[Notice]:
    """Names in the schemas of an item that no draft of JSON Schema defines: they refuse nothing."""
    for name in _SCHEMAS:
        schema = getattr(metadata, name)
        if not isinstance(schema, dict):
            continue
        from lilux.schemas.schema_validator import unknown_keywords

        found = list(islice(unknown_keywords(schema), _SHOWN))
        if found:
            shown = ", ".join(map(visible, found))
            what = f"{name}: expected keywords of JSON Schema, found {shown}"
            yield Notice(
                "unknown_keyword", f"{what}: correct the spelling, or put text with commas in quotes"
            )


def in_shell(chain: Chain) -> Iterator[Notice]:
    """Placeholders for what a caller gives that a shell would read as code."""
    config: dict[str, Any] = {}
    for element in chain.upward:
        config |= {name: value for name, value in (element.metadata.config or {}).items() if name in _FIELDS}
    schema = chain.root.metadata.config_schema or {}
    declared = schema.get("properties")
    found = placeholders_in_shell(config, declared if isinstance(declared, dict) else ())
    if found:
        shown = ", ".join(f"{{{name}}}" for name in found)
        what = f"{chain.root.item_id} puts {shown} into a command that a shell reads as code"
        yield Notice("template_in_shell", f"{what}: use config.shell: true, or standard input")
