"""Skills over MCP: for hosts that know the extension, and for hosts that do not."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp.types import Request, ResourceListChangedNotification
from pydantic import BaseModel, ConfigDict
from ruamel.yaml import YAML

from tests.mcp_world import *  # noqa: F403
from tests.mcp_world import Mode, Workshop, facts
from tests.raw_client import raw_client
from tests.skill_world import FILES, TEXT
from tests.skill_world import write as write_files

pytestmark = pytest.mark.anyio

EXTENSION = "io.modelcontextprotocol/skills"
FRONT = (
    "---\nname: brew-tea\ndescription: Brews tea. Use it when somebody is thirsty.\nlicense: MIT\n"
    "metadata: {version: '1.2', cups: 2}\nallowed-tools: Bash(*)\n---\n"
)
SKILL: dict[str, str | bytes] = {
    **FILES,
    "SKILL.md": FRONT + "Boil water. See references/leaves.md.\n",
    "assets/cup.png": b"\x89PNG\r\n\x1a\n\0\xff",
    "references/deep/er.md": "More.\r\n",
    "references/hidden.md": "Do\u202e it.\n",
    "a b#%.md": "Odd.\n",
}


class Answer(BaseModel):
    """Whatever a method of the extension returns."""

    model_config = ConfigDict(extra="allow")


def put(workshop: Workshop, name: str = "brew-tea", files: dict[str, str | bytes] | None = None) -> None:
    """Write a skill and sign it."""
    write_files(workshop.project / ".ai/skills" / name, files or SKILL)
    workshop.sign(name, "skill")


class Host:
    """A host that takes nothing that does not agree with its entry, as the extension asks of hosts."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """The answer of a method."""
        request = Request[dict[str, Any], str](method=method, params=params)
        answer = await self.client.session.send_request(request, Answer)
        return answer.model_dump(exclude_none=True)

    async def skills(self) -> dict[str, dict[str, Any]]:
        """Every entry by its address, of all pages."""
        found: dict[str, dict[str, Any]] = {}
        cursor: dict[str, str] = {}
        while True:
            page = await self.ask("skills/list", **cursor)
            found |= {each["uri"]: each for each in page["skills"]}
            if "nextCursor" not in page:
                return found
            cursor = {"cursor": page["nextCursor"]}

    async def read(self, address: str, entry: dict[str, Any]) -> bytes:
        """A file of a skill, verified against the entry that the host holds."""
        (listed,) = [each for each in entry["resources"] if each["uri"] == address]
        (content,) = (await self.client.read_resource(address)).contents
        text = getattr(content, "text", None)
        found = base64.b64decode(content.blob) if text is None else text.encode()  # type: ignore[union-attr]
        assert len(found) == listed["size"]
        assert f"sha256:{hashlib.sha256(found).hexdigest()}" == listed["digest"]
        return found

    async def load(self, entry: dict[str, Any]) -> str:
        """The text of a skill, whose front matter is that of the entry."""
        text = (await self.read(entry["uri"], entry)).decode()
        front = YAML(typ="safe", pure=True).load(text.split("---\n")[1])
        assert front == entry["frontmatter"]
        return text


@pytest.mark.both_eras
async def test_a_host_that_knows_skills_lists_verifies_and_reads_them(workshop: Workshop, mode: Mode) -> None:
    put(workshop)
    put(workshop, "pour", {"SKILL.md": TEXT.replace("brew-tea", "pour")})
    async with workshop.served(mode) as client:
        declared = client.server_capabilities.extensions or {}  # those of 2025 have no place for it
        assert declared.get(EXTENSION) == ({"directoryRead": True} if mode == "auto" else None)
        assert client.server_capabilities.resources is not None
        host = Host(client)
        entries = await host.skills()
        assert set(entries) == {"skill://brew-tea/SKILL.md", "skill://pour/SKILL.md"}
        entry = entries["skill://brew-tea/SKILL.md"]
        assert entry["frontmatter"]["metadata"] == {"version": "1.2", "cups": 2}
        assert entry["frontmatter"]["allowed-tools"] == "Bash(*)"
        assert await host.load(entry) == SKILL["SKILL.md"]
        read = {each["uri"]: await host.read(each["uri"], entry) for each in entry["resources"]}
        assert sorted(read.values()) == sorted(
            each if isinstance(each, bytes) else each.encode() for each in SKILL.values()
        )
        assert "skill://brew-tea/a%20b%23%25.md" in read
        got = await host.ask("skills/get", uri="skill://brew-tea/SKILL.md")
        assert got["skill"] == entry


async def test_directories_of_a_skill_are_read(workshop: Workshop) -> None:
    put(workshop)
    async with workshop.served("auto") as client:
        host = Host(client)

        async def children(address: str) -> list[tuple[str, str]]:
            found = await host.ask("resources/directory/read", uri=address)
            return [
                (each["uri"].removeprefix("skill://brew-tea"), each["mimeType"])
                for each in found["resources"]
            ]

        assert await children("skill://brew-tea") == [
            ("/SKILL.md", "text/markdown"),
            ("/a%20b%23%25.md", "text/markdown"),
            ("/assets", "inode/directory"),
            ("/references", "inode/directory"),
            ("/scripts", "inode/directory"),
        ]
        assert await children("skill://brew-tea/assets") == [("/assets/cup.png", "image/png")]
        assert ("/references/deep", "inode/directory") in await children("skill://brew-tea/references")
        for address in (
            "skill://brew-tea/SKILL.md",
            "skill://brew-tea/",
            "skill://other",
            "skill://brew-tea/x",
            "rye://x",
        ):
            with pytest.raises(MCPError) as caught:
                await children(address)
            assert caught.value.code == -32602


@pytest.mark.parametrize("era", ["2026-07-28", "2025-11-25"])
def test_what_is_on_the_wire(workshop: Workshop, era: Any) -> None:
    put(workshop)
    with raw_client(workshop.person, workshop.project, era) as client:
        client.begin()
        client.send(client.request(1, "skills/list", {}))
        result = client.answer(1)["result"]
        client.send(client.request(2, "skills/get", {"uri": "skill://brew-tea/SKILL.md"}))
        got = client.answer(2)["result"]
    is_modern = era == "2026-07-28"
    for answer in (result, got):
        assert (answer.get("resultType") == "complete") is is_modern
        assert (answer.get("cacheScope") == "private") is is_modern
        assert isinstance(answer.get("ttlMs"), int) is is_modern
    (entry,) = result["skills"]
    assert entry == got["skill"]
    assert set(entry) == {"uri", "frontmatter", "resources"}
    assert all(set(each) == {"uri", "digest", "size"} for each in entry["resources"])


@pytest.mark.first_case
@pytest.mark.parametrize(
    "address",
    ["skill://brew-tea/../../tools/x", "skill://brew-tea/%2e%2e/x", "skill://nobody/SKILL.md", "skill://", "skill:///SKILL.md",
     "skill://brew-tea/scripts", "skill://Brew-Tea/SKILL.md", "skill://brew-tea%2F..%2Fpour/SKILL.md"],
)  # fmt: skip
async def test_nothing_else_stands_at_an_address_of_a_skill(workshop: Workshop, address: str) -> None:
    put(workshop)
    put(workshop, "pour", {"SKILL.md": TEXT.replace("brew-tea", "pour")})
    async with workshop.served("auto") as client:
        for asking in (client.read_resource(address), Host(client).ask("skills/get", uri=address)):
            with pytest.raises(MCPError) as caught:
                await asking
            assert caught.value.code == -32602


async def test_only_what_verifies_is_offered(workshop: Workshop) -> None:
    put(workshop)
    put(workshop, "pour", {"SKILL.md": TEXT.replace("brew-tea", "pour")})
    write_files(workshop.project / ".ai/skills/unsigned", {"SKILL.md": TEXT.replace("brew-tea", "unsigned")})
    (workshop.project / ".ai/skills/brew-tea/scripts/kettle.sh").write_text("echo cold\n")
    async with workshop.served("auto") as client:
        host = Host(client)
        assert set(await host.skills()) == {"skill://pour/SKILL.md"}
        prompts = [each.name for each in (await client.list_prompts()).prompts]
        assert [name for name in prompts if not name.startswith("rye_")] == ["pour"]
        listed = [str(each.uri) for each in (await client.list_resources()).resources]
        assert [each for each in listed if each.startswith("skill:")] == ["skill://pour/SKILL.md"]
        for name in ("brew-tea", "unsigned"):
            for path in ("SKILL.md", "references/leaves.md"):
                with pytest.raises(MCPError) as caught:
                    await client.read_resource(f"skill://{name}/{path}")
                assert "Boil" not in str(caught.value.error)
            with pytest.raises(MCPError):
                await host.ask("skills/get", uri=f"skill://{name}/SKILL.md")
            with pytest.raises(MCPError):
                await host.ask("resources/directory/read", uri=f"skill://{name}")


@pytest.mark.both_eras
async def test_a_host_that_knows_no_skills_uses_one_all_the_same(workshop: Workshop, mode: Mode) -> None:
    put(workshop)
    async with workshop.served(mode) as client:
        (prompt,) = [each for each in (await client.list_prompts()).prompts if each.name == "brew-tea"]
        assert prompt.description == "Brews tea. Use it when somebody is thirsty."
        (message,) = (await client.get_prompt("brew-tea")).messages
        assert message.content.text.startswith("Boil water.")  # type: ignore[union-attr]
        assert "- references/leaves.md" in message.content.text  # type: ignore[union-attr]
        found = facts(await client.call_tool("search", {"query": "thirsty", "scope": "skill"}))
        assert [each["id"] for each in found["results"]] == ["brew-tea"]
        about = {"item_id": "brew-tea", "item_type": "skill"}
        loaded = facts(await client.call_tool("load", about))
        assert {"path": "references/leaves.md", "size": 21} in loaded["files"]
        part = facts(await client.call_tool("load", {**about, "file": "references/leaves.md"}))
        assert part["content"] == FILES["references/leaves.md"]
        executed = facts(await client.call_tool("execute", about))
        assert executed["content"].startswith("Boil water.")
        refused = await client.call_tool("load", {**about, "file": "assets/cup.png"})
        assert facts(refused)["code"] == "not_text"


async def test_a_directive_and_a_skill_of_one_name_are_told_apart(workshop: Workshop) -> None:
    put(workshop)
    directive = "---\nname: brew-tea\ndescription: Another.\n---\nNo tea.\n"
    workshop.write("brew-tea", directive, kind="directives", extension="md")
    workshop.sign("brew-tea", "directive")
    async with workshop.served("auto") as client:
        names = {each.name: each.description for each in (await client.list_prompts()).prompts}
        assert names["brew-tea"] == "Another."
        (other,) = [name for name in names if name.startswith("brew-tea_")]
        (message,) = (await client.get_prompt(other)).messages
        assert message.content.text.startswith("Boil water.")  # type: ignore[union-attr]


@pytest.mark.both_eras
async def test_changes_are_announced(workshop: Workshop, mode: Mode) -> None:
    put(workshop)
    changed = anyio.Event()

    async def hear(message: Any) -> None:
        if isinstance(message, ResourceListChangedNotification):
            changed.set()

    path = workshop.project / ".ai/skills/brew-tea/references/leaves.md"
    with anyio.fail_after(60):
        async with workshop.served(mode, client={"message_handler": hear}) as client:
            host = Host(client)
            (entry,) = (await host.skills()).values()
            listening = client.listen(resources_list_changed=True) if mode == "auto" else _nothing()
            async with listening:
                number = 0
                while not changed.is_set():  # nobody tells when the system has begun to watch
                    number += 1
                    path.write_text(f"Green, black, white: {number}.\n")
                    workshop.sign("brew-tea", "skill")
                    with anyio.move_on_after(2):
                        await changed.wait()
                (now,) = (await host.skills()).values()
                assert now["resources"] != entry["resources"]
                assert await host.load(now)


class _nothing:  # noqa: N801
    async def __aenter__(self) -> None: ...

    async def __aexit__(self, *_: object) -> None: ...


async def test_skills_of_others_are_brought_in_signed_listed_and_served(workshop: Workshop) -> None:
    other = workshop.project.parent / "other"
    write_files(other / ".claude/skills/brew-tea", SKILL)
    write_files(other / "skills/pour", {"SKILL.md": TEXT.replace("brew-tea", "pour"), "LICENSE.txt": "MIT\n"})
    write_files(other / ".agents/skills/wash", {"SKILL.md": TEXT.replace("brew-tea", "wash")})
    added = workshop.person.rye("skill", "add", str(other), "--json", cwd=workshop.project).json
    names = {each["name"] for each in added["added"]}
    assert names == {"brew-tea", "pour", "wash"}
    async with workshop.served("auto") as client:
        assert await Host(client).skills() == {}
    workshop.person.rye("sign", "*", "--type", "skill", cwd=workshop.project)
    verified = workshop.person.rye("verify", "--type", "skill", "--json", cwd=workshop.project).json
    assert (verified["verified"], verified["refused"]) == (3, 0)
    async with workshop.served("auto") as client:
        host = Host(client)
        entries = await host.skills()
        assert {entry["frontmatter"]["name"] for entry in entries.values()} == names
        for entry in entries.values():
            assert await host.load(entry)


@pytest.mark.thorough
async def test_many_skills_come_in_pages(workshop: Workshop) -> None:
    for number in range(30):
        files: dict[str, str | bytes] = {f"references/{'x' * 40}-{each}.md": "x" for each in range(150)}
        put(workshop, f"s{number}", {**files, "SKILL.md": TEXT.replace("brew-tea", f"s{number}")})
    async with workshop.served("auto") as client:
        host = Host(client)
        first = await host.ask("skills/list")
        assert first["nextCursor"]
        assert len(await host.skills()) == 30
        with pytest.raises(MCPError):
            await host.ask("skills/list", cursor="nonsense")
