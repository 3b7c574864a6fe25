"""What stands beside the four tools: native tools, prompts, resources, content blocks, and the project."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.shared.exceptions import MCPError
from mcp.types import (
    ImageContent,
    ListRootsResult,
    PromptReference,
    ResourceTemplateReference,
    Root,
    TextContent,
    ToolListChangedNotification,
)

from lilux.primitives.subprocess import SubprocessPrimitive
from tests.mcp_world import *  # noqa: F403
from tests.mcp_world import Mode, Workshop, facts, text_of

pytestmark = pytest.mark.anyio

FOUR = ["search", "load", "execute", "sign"]

SCHEMA = (
    'CONFIG_SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}\n'
    'OUTPUT_SCHEMA = {"type": "object", "properties": {"greeting": {"type": "string"}}, '
    '"required": ["greeting"]}\n'
    'ANNOTATIONS = {"readOnlyHint": True, "openWorldHint": False, "destructiveHint": False}\n'
    "PERMISSIONS = {}"
)

GREET = "print(json.dumps({'greeting': f'Hello, {params[\"name\"]}!'}))"

SYSTEM_PROMPTS = {"rye_core_create_tool", "rye_core_create_runtime", "rye_core_review_tool"}

REVIEW = """\
---
name: review
description: How to review.
inputs:
  type: object
  properties:
    language: {type: string, enum: [python, perl, rust], description: Of the code.}
    strict: {type: boolean}
  required: [language]
---
Review the {input:language} code, strictly: {input:strict|no}.
"""

NOTES = """\
---
name: notes
description: What is known.
---
Foxes are red.
"""

PIXEL = base64.b64encode(b"\x89PNG not really").decode()


def names(listed: Any) -> list[str]:
    return [tool.name for tool in listed.tools]


async def test_annotations_are_what_is_enforced_and_not_what_an_author_says(workshop: Workshop) -> None:
    said = 'ANNOTATIONS = {"readOnlyHint": True, "destructiveHint": False, "openWorldHint": False}'
    workshop.tool("demo/free", "print(1)", metadata=said)
    workshop.tool("demo/writes", "print(1)", metadata=f'{said}\nPERMISSIONS = {{"project": "write"}}')
    workshop.tool("demo/asks", "print(1)", metadata=f'{said}\nPERMISSIONS = {{"net": ["a.example.org"]}}')
    async with workshop.served("auto", "--expose", "demo/*") as client:
        found = {tool.name: tool.annotations for tool in (await client.list_tools()).tools}
    told = {
        name: (hints.read_only_hint, hints.destructive_hint, hints.open_world_hint)
        for name, hints in found.items()
        if hints is not None and name.startswith("demo_")
    }
    assert told == {
        "demo_free": (False, True, True),
        "demo_writes": (False, True, False),
        "demo_asks": (False, False, True),
    }


async def test_exposed_tools_are_tools_of_their_own(workshop: Workshop, mode: Mode) -> None:
    workshop.tool("demo/hello", GREET, description="Greets \\u202esomebody.", metadata=SCHEMA)
    workshop.tool("demo/a_b", "print(1)")
    workshop.tool("demo/a/b", "print(2)")
    workshop.tool("search", "print(3)")
    workshop.tool("other/tool", "print(4)")
    workshop.write("demo/unsigned", "import json\n")
    async with workshop.served(mode, "--expose", "demo/*", "--expose", "search") as client:
        listed = await client.list_tools()
        found = {tool.name: tool for tool in listed.tools}
        assert names(listed)[:4] == FOUR
        clashing = [name for name in found if name.startswith("demo_a_b_")]
        assert len(clashing) == 2
        [qualified] = [name for name in found if name.startswith("search_")]
        assert set(found) == {*FOUR, "demo_hello", *clashing, qualified}
        hello = found["demo_hello"]
        assert hello.description == "Greets \\u202esomebody."
        assert hello.input_schema["required"] == ["name"]
        assert hello.output_schema is not None
        assert hello.output_schema["required"] == ["greeting"]
        assert hello.annotations is not None
        hints = hello.annotations
        here = (await SubprocessPrimitive().probe()).cell is not None
        assert hints.read_only_hint is here, "walls cannot keep a tool from everything that can be changed"
        assert (hints.open_world_hint, hints.destructive_hint) == (False, False)
        result = await client.call_tool("demo_hello", {"name": "${HOME} 'é'"})
        assert facts(result) == {"greeting": "Hello, ${HOME} 'é'!"}
        assert json.loads(text_of(result)) == facts(result)
        assert result.meta is not None
        assert result.meta["rye/project"] == str(workshop.project)
        refused = await client.call_tool("demo_hello", {})
        assert (refused.is_error, facts(refused)["code"]) == (True, "invalid_parameters")
        assert text_of(await client.call_tool(qualified, {})) == "3"
        assert {text_of(await client.call_tool(name, {})) for name in clashing} == {"1", "2"}


async def test_a_tool_that_nothing_could_run_is_not_listed(workshop: Workshop, mode: Mode) -> None:
    tool = "version: '1'\nexecutor_id: {}\nconfig: {{command: 'true'}}\n"
    runtime = "tool_type: runtime\nexecutor_id: rye/core/primitives/subprocess\nversion: '1'\n"
    workshop.write("demo/good", tool.format("rye/core/primitives/subprocess"), extension="yaml")
    workshop.write("demo/typo", tool.format("bash_runtim"), extension="yaml")
    workshop.write("demo/stands", tool.format("demo/changed"), extension="yaml")
    path = workshop.write("demo/changed", runtime, extension="yaml")
    for item_id in ("demo/good", "demo/typo", "demo/stands", "demo/changed"):
        workshop.sign(item_id)
    async with workshop.served(mode, "--expose", "demo/*") as client:
        assert names(await client.list_tools()) == [*FOUR, "demo_good", "demo_stands"]
    path.write_text(path.read_text() + "# changed\n")
    async with workshop.served(mode, "--expose", "demo/*") as client:
        assert names(await client.list_tools()) == [*FOUR, "demo_good"]
        refused = await client.call_tool("execute", {"item_id": "demo/typo"})
        assert facts(refused)["code"] == "executor_not_found"


async def test_output_that_breaks_its_promise_is_a_failure(workshop: Workshop, mode: Mode) -> None:
    workshop.tool("demo/liar", "print(json.dumps({'greeting': 1}))", metadata=SCHEMA)
    async with workshop.served(mode, "--expose", "demo/*") as client:
        await client.list_tools()
        result = await client.call_tool("demo_liar", {"name": "x"})
        assert (result.is_error, facts(result)["code"]) == (True, "tool_failed")


@pytest.mark.thorough
@pytest.mark.both_eras
async def test_a_changed_tool_vanishes_is_announced_and_runs_no_more(workshop: Workshop, mode: Mode) -> None:
    path = workshop.tool("demo/hello", GREET, metadata=SCHEMA)
    canary = workshop.project / "canary"
    told = anyio.Event()

    async def heard(message: Any) -> None:
        if isinstance(message, ToolListChangedNotification):
            told.set()

    with anyio.fail_after(50):
        async with (
            workshop.served(mode, "--expose", "demo/*", client={"message_handler": heard}) as client,
            anyio.create_task_group() as group,
        ):
            if mode == "auto":
                group.start_soon(_listen, client, told)
            assert "demo_hello" in names(await client.list_tools())
            await _watching()
            path.write_text(path.read_text() + f"open({str(canary)!r}, 'w')\n")
            result = await client.call_tool("demo_hello", {"name": "x"})
            assert facts(result)["code"] == "content_changed"
            await told.wait()
            assert names(await client.list_tools(cache_mode="refresh")) == FOUR
            told = anyio.Event()
            workshop.sign("demo/hello")
            await told.wait()
            assert "demo_hello" in names(await client.list_tools(cache_mode="refresh"))
            group.cancel_scope.cancel()
    assert not canary.exists()


async def _listen(client: Any, told: anyio.Event) -> None:
    async with client.listen(tools_list_changed=True) as events:
        async for _ in events:
            told.set()


async def _watching() -> None:
    """Nobody tells when the system has begun to watch."""
    await anyio.sleep(1)


async def test_a_project_exposes_its_tools_once_it_is_approved(workshop: Workshop, mode: Mode) -> None:
    workshop.tool("demo/hello", GREET)
    config = workshop.project / ".ai/config/rye.yaml"
    config.parent.mkdir(exist_ok=True)
    config.write_text("expose:\n  - demo/*\n")
    async with workshop.served(mode) as client:
        assert names(await client.list_tools()) == [*FOUR, "demo_hello"]
    for decisions in (workshop.person.state / "rye/projects").glob("*.json"):
        decisions.unlink()
    async with workshop.served(mode) as client:
        assert names(await client.list_tools()) == FOUR


async def test_directives_are_prompts(workshop: Workshop, mode: Mode) -> None:
    workshop.write("demo/review", REVIEW, kind="directives", extension="md")
    workshop.write("demo/unsigned", REVIEW, kind="directives", extension="md")
    workshop.sign("demo/review", "directive")
    async with workshop.served(mode) as client:
        prompts = {each.name: each for each in (await client.list_prompts()).prompts}
        assert prompts.keys() - {"demo_review"} == SYSTEM_PROMPTS
        prompt = prompts["demo_review"]
        assert (prompt.name, prompt.description) == ("demo_review", "How to review.")
        assert [(each.name, each.required) for each in prompt.arguments or []] == [
            ("language", True),
            ("strict", False),
        ]
        filled = await client.get_prompt("demo_review", {"language": "rust", "strict": "true"})
        assert isinstance(filled.messages[0].content, TextContent)
        assert filled.messages[0].content.text.strip() == "Review the rust code, strictly: true."
        for name, arguments in (("demo_review", {"language": "c"}), ("demo_unsigned", {"language": "rust"})):
            with pytest.raises(MCPError):
                await client.get_prompt(name, arguments)
        reference = PromptReference(type="ref/prompt", name="demo_review")
        completed = await client.complete(reference, {"name": "language", "value": "p"})
        assert completed.completion.values == ["python", "perl"]


async def test_items_and_output_are_resources(workshop: Workshop, mode: Mode) -> None:
    workshop.write("demo/notes", NOTES, kind="knowledge", extension="md")
    workshop.sign("demo/notes", "knowledge")
    workshop.write("demo/unsigned", "print('hidden words')")
    workshop.tool("demo/long", "print('first\\n' + 'x' * 3_000_000)")
    async with workshop.served(mode) as client:
        addresses = [str(each.uri) for each in (await client.list_resources()).resources]
        assert addresses[0] == "rye://item/knowledge/demo/notes"
        assert all(each.startswith("rye://item/knowledge/rye/core/") for each in addresses[1:])
        templates = (await client.list_resource_templates()).resource_templates
        assert [each.uri_template for each in templates] == [
            "rye://item/{kind}/{+path}",
            "skill://{name}/{+path}",
            "rye://runs/{id}/{stream}",
            "rye://result/{sha256}",
        ]
        assert "Foxes are red." in await _text_at(client, addresses[0])
        assert "3_000_000" in await _text_at(client, "rye://item/tool/demo/long")
        ran = facts(await client.call_tool("execute", {"item_id": "demo/long"}))
        assert (await _text_at(client, ran["output"])).startswith("first\nxxx")
        for address in (
            "rye://item/tool/demo/unsigned",
            "rye://item/tool/../../secret",
            "rye://item/other/demo/notes",
            "rye://runs/../stdout",
            "rye://runs/01m7r64xnv25r13hyhb9ccmrbf/stdout",
            "file:///etc/passwd",
        ):
            with pytest.raises(MCPError) as refused:
                await client.read_resource(address)
            assert "hidden words" not in str(refused.value)
        reference = ResourceTemplateReference(type="ref/resource", uri=templates[0].uri_template)
        completed = await client.complete(
            reference, {"name": "path", "value": "demo/l"}, context_arguments={"kind": "tool"}
        )
        assert completed.completion.values == ["demo/long"]


async def _text_at(client: Any, address: str) -> str:
    [content] = (await client.read_resource(address)).contents
    text: str = content.text
    return text


@pytest.mark.first_case
@pytest.mark.parametrize(
    ("blocks", "is_rich"),
    [
        (
            [{"type": "image", "data": PIXEL, "mimeType": "image/png"}, {"type": "text", "text": "a\x1b[2J"}],
            True,
        ),
        ([{"type": "image", "data": "no base64!", "mimeType": "image/png"}], False),
        ([{"type": "image", "data": PIXEL, "mimeType": "text/html"}], False),
        ([{"type": "resource_link", "name": "a", "uri": "file:///etc/passwd"}], False),
        ([{"type": "unheard_of"}], False),
        ([], False),
    ],
    ids=["sound", "no base64", "no picture", "a file", "unheard of", "nothing"],
)
async def test_content_blocks_pass_when_all_are_sound(
    workshop: Workshop, mode: Mode, blocks: list[dict[str, Any]], is_rich: bool
) -> None:
    workshop.tool("demo/rich", f"print(json.dumps({{'content': {blocks!r}}}))")
    async with workshop.served(mode) as client:
        result = await client.call_tool("execute", {"item_id": "demo/rich"})
    assert not result.is_error
    first = result.content[0]
    assert [block.type for block in result.content] == (["image", "text"] if is_rich else ["text"])
    if isinstance(first, ImageContent):
        assert first.data == PIXEL
        assert text_of(result) == "a\\x1b[2J"
        assert PIXEL not in json.dumps(facts(result))


def _no_project(place: Path) -> Path:
    empty = place / "empty"
    empty.mkdir()
    return empty


@pytest.mark.thorough
async def test_the_project_is_what_was_named_first(workshop: Workshop, mode: Mode, tmp_path: Path) -> None:
    empty, other = _no_project(tmp_path), tmp_path / "other"
    (other / ".ai").mkdir(parents=True)
    project, search = str(workshop.project), {"query": "*"}
    cases: list[tuple[list[str], dict[str, str], Path, dict[str, str], str | None]] = [
        ([], {}, workshop.project, {}, project),
        ([], {}, workshop.project / ".ai", {}, project),
        ([], {}, empty, {}, None),
        ([], {"RYE_PROJECT": project}, empty, {}, project),
        ([], {"RYE_PROJECT_PATH": project}, empty, {}, project),
        ([], {"RYE_PROJECT": project, "RYE_PROJECT_PATH": str(other)}, empty, {}, project),
        (["--project", project], {"RYE_PROJECT": str(other)}, empty, {}, project),
        (["--project", project], {}, empty, {"project_path": str(other)}, str(other)),
    ]
    for arguments, variables, cwd, named, expected in cases:
        async with workshop.served(mode, *arguments, cwd=cwd, variables=variables) as client:
            found = facts(await client.call_tool("search", search | named))
        assert found["project"] == expected, (arguments, variables, cwd, named)


@pytest.mark.thorough
async def test_the_roots_of_a_client_come_before_the_working_directory(
    workshop: Workshop, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    (other / ".ai").mkdir(parents=True)
    roots = ["file:///nowhere", _no_project(tmp_path).as_uri(), other.as_uri()]

    async def answered(_: Any) -> ListRootsResult:
        return ListRootsResult(roots=[Root.model_validate({"uri": root}) for root in roots])

    async def silent(_: Any) -> ListRootsResult:
        await anyio.sleep_forever()
        raise AssertionError

    search = {"query": "*"}
    cases: list[tuple[Callable[[Any], Any], list[str], Path]] = [
        (answered, [], other),
        (answered, ["--project", str(workshop.project)], workshop.project),
        (silent, [], workshop.project),
    ]
    for callback, arguments, expected in cases:
        client_options = {"list_roots_callback": callback}
        async with workshop.served("legacy", *arguments, client=client_options) as client:
            found = facts(await client.call_tool("search", search))
        assert found["project"] == str(expected), (callback, arguments)


@pytest.mark.thorough
async def test_other_roots_are_other_lists_and_those_alone_are_watched(
    workshop: Workshop, tmp_path: Path
) -> None:
    tools = {}
    for name in ("first", "second"):
        project = tmp_path / name
        project.mkdir()
        workshop.person.begin(project)
        tools[name] = Workshop(workshop.person, project).tool(f"demo/{name}", "print('{}')", metadata=SCHEMA)
    roots = ["first"]
    told = anyio.Event()

    async def answered(_: Any) -> ListRootsResult:
        return ListRootsResult(
            roots=[Root.model_validate({"uri": (tmp_path / name).as_uri()}) for name in roots]
        )

    async def heard(message: Any) -> None:
        if isinstance(message, ToolListChangedNotification):
            told.set()

    options = {"list_roots_callback": answered, "message_handler": heard}
    with anyio.fail_after(50):
        async with workshop.served("legacy", "--expose", "demo/*", client=options) as client:
            assert names(await client.list_tools()) == [*FOUR, "demo_first"]
            roots[:] = ["second"]
            with pytest.warns(match="roots"):
                await client.session.send_roots_list_changed()
            await told.wait()
            assert names(await client.list_tools(cache_mode="refresh")) == [*FOUR, "demo_second"]
            told = anyio.Event()
            await _watching()
            tools["first"].write_text(tools["first"].read_text() + "# changed\n")
            await _watching()
            assert not told.is_set()
            broken = await client.call_tool("demo_second", {"name": "x"})
            assert (broken.is_error, facts(broken)["code"]) == (True, "tool_failed")
            tools["second"].write_text(tools["second"].read_text() + "# changed\n")
            await told.wait()


@pytest.mark.thorough
async def test_a_project_that_is_begun_later_is_found(workshop: Workshop, mode: Mode, tmp_path: Path) -> None:
    empty = _no_project(tmp_path)
    async with workshop.served(mode, cwd=empty) as client:
        assert facts(await client.call_tool("search", {}))["project"] is None
        workshop.person.begin(empty)
        assert facts(await client.call_tool("search", {}))["project"] == str(empty)
