"""Two people share signed items through a registry: what travels, what is pinned, what is never written."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

import pytest

from rye_mcp.errors import RyeError
from rye_mcp.items import ItemType
from rye_mcp.verbs.load import LoadRequest, load
from rye_mcp.verbs.lock import LockUpdateRequest, LockVerifyRequest, lock_update, lock_verify
from rye_mcp.verbs.sign import SignRequest, sign
from tests import skill_world
from tests.registry_world import Member, author_in, member_in, registry
from tests.trust_world import refused
from tests.verb_world import agent, app_of, person, put, tool

TOOLS = ("tools/demo/bye.py", "tools/demo/hello.py")


@pytest.fixture
def alice(tmp_path: Path) -> Member:
    return author_in(tmp_path / "alice")


@pytest.fixture
def bob(tmp_path: Path) -> Member:
    return member_in(tmp_path / "bob")


async def refused_with(code: str, doing: object) -> RyeError:
    with pytest.raises(RyeError) as caught:
        await doing  # type: ignore[misc]
    assert caught.value.code == code, caught.value.message
    assert "expected" in caught.value.message
    assert caught.value.hint
    return caught.value


async def test_what_one_pushes_another_pulls_byte_for_byte(alice: Member, bob: Member) -> None:
    bob.trusts(alice)
    async with registry() as there:
        pushed = await alice.push(there.reference(), "demo/*")
        pulled = await bob.pull(there.reference())
    assert pushed.digest == pulled.digest
    assert pushed.items == ("tool:demo/bye", "tool:demo/hello")
    assert pulled.written == TOOLS
    for path in TOOLS:
        assert bob.files()[path] == alice.files()[path]
    context = person(bob.world)
    assert load(LoadRequest("demo/hello"), context).integrity.state == "verified"


async def test_a_pull_pins_each_file_by_its_hash_and_its_signer(alice: Member, bob: Member) -> None:
    async with registry() as there:
        await alice.push(there.reference(), "demo/*")
        pulled = await bob.pull(there.reference())
        table = tomllib.loads(bob.files()["sources.toml"].decode())
        [source] = table["source"]
        assert source["ref"] == there.reference()
    assert source["digest"] == pulled.digest
    assert sorted(source["files"]) == list(TOOLS)
    assert {each["signer"] for each in source["files"].values()} == {alice.key_id}


async def test_a_pull_trusts_nobody(alice: Member, bob: Member) -> None:
    async with registry() as there:
        await alice.push(there.reference(), "demo/*")
        pulled = await bob.pull(there.reference())
    assert pulled.undecided == (alice.key_id,)
    context = person(bob.world)
    file = context.spaces.find("demo/hello").item
    error = refused("untrusted_key", lambda: context.verify(file))
    assert error.hint == "rye trust review"
    assert bob.files()[f"trusted_keys/{alice.document.file_name}"] == alice.document.data
    trusted = app_of(bob.world).trust.store.documents().documents
    assert alice.key_id not in {each.key.key_id for each in trusted}


async def test_the_same_items_have_the_same_digest(alice: Member) -> None:
    async with registry() as there:
        first = await alice.push(there.reference("1"), "demo/*")
        second = await alice.push(there.reference("2"), "demo/hello", "demo/bye")
        assert first.digest == second.digest
        puts = [each for each in there.requests if each.method == "PUT" and "/blobs/" in each.target]
    assert len(puts) == 4  # an empty config, two tools and a key: nothing is sent twice


async def test_what_a_tool_carries_and_its_lockfile_go_along(alice: Member, bob: Member) -> None:
    put(alice.world, tool('open("words.json")'), "demo/reader")
    (alice.space / "tools/demo/words.json").write_text("[1]\n")
    sign(SignRequest("demo/reader", companions=("words.json",)), person(alice.world))
    lock_update(LockUpdateRequest("demo/reader"), person(alice.world))
    bob.trusts(alice)
    async with registry() as there:
        pushed = await alice.push(there.reference(), "demo/reader")
        await bob.pull(there.reference())
    assert set(pushed.files) == {
        "lockfiles/demo/reader@1.2.0.lock.json",
        "tools/demo/deps.manifest.yaml",
        "tools/demo/reader.py",
        "tools/demo/words.json",
        f"trusted_keys/{alice.document.file_name}",
    }
    assert bob.files()["tools/demo/words.json"] == b"[1]\n"
    [verified] = lock_verify(LockVerifyRequest("demo/reader"), person(bob.world)).tools
    assert verified.state == "match"


async def test_a_skill_goes_along_with_every_file_of_it(alice: Member, bob: Member) -> None:
    skill_world.written(alice.world, {**skill_world.FILES, ".hidden/notes.txt": "Cold.\n"})
    bob.trusts(alice)
    async with registry() as there:
        pushed = await alice.push(there.reference(), "brew-tea")
        await bob.pull(there.reference())
    assert pushed.items == ("skill:brew-tea",)
    assert {path for path in bob.files() if path.startswith("skills/")} == {
        "skills/brew-tea.rye.sig.yaml",
        "skills/brew-tea/.hidden/notes.txt",
        *(f"skills/brew-tea/{path}" for path in skill_world.FILES),
    }
    loaded = load(LoadRequest("brew-tea", ItemType.SKILL), person(bob.world))
    assert loaded.integrity.state == "verified"


async def test_what_runs_a_tool_goes_along_if_it_is_of_the_same_space(alice: Member, bob: Member) -> None:
    runtime = b"""\
version: "1.0.0"
description: Runs a script with sh.
tool_type: runtime
executor_id: rye/core/primitives/subprocess
config: {command: sh, args: ["{tool_path}"]}
"""
    put(alice.world, runtime, "demo/own_runtime", ".yaml", signed=True)
    put(alice.world, tool(executor="demo/own_runtime"), "demo/uses", signed=True)
    async with registry() as there:
        pushed = await alice.push(there.reference(), "demo/uses")
        assert "tools/demo/own_runtime.yaml" in pushed.files
        (alice.space / "tools/demo/own_runtime.yaml").unlink()
        await refused_with("executor_not_found", alice.push(there.reference(), "demo/uses"))


async def test_what_does_not_verify_is_not_pushed(alice: Member) -> None:
    (alice.space / TOOLS[0]).write_bytes((alice.space / TOOLS[0]).read_bytes() + b"# more\n")
    async with registry() as there:
        await refused_with("content_changed", alice.push(there.reference(), "demo/*"))
        assert there.requests == []


async def test_what_an_agent_signed_is_not_pushed(alice: Member) -> None:
    put(alice.world, tool(), "demo/made")
    sign(SignRequest("demo/made"), agent(alice.world))
    async with registry() as there:
        error = await refused_with("person_required", alice.push(there.reference(), "demo/made"))
    assert error.hint.endswith("rye sign demo/made")


async def test_a_pull_again_changes_nothing(alice: Member, bob: Member) -> None:
    async with registry() as there:
        await alice.push(there.reference(), "demo/*")
        await bob.pull(there.reference())
        before = {path: path.stat().st_mtime_ns for path in bob.space.rglob("*")}
        again = await bob.pull(there.reference())
    assert again.written == again.removed == ()
    assert {path: path.stat().st_mtime_ns for path in bob.space.rglob("*")} == before


async def test_a_later_version_replaces_and_removes_what_came_before(alice: Member, bob: Member) -> None:
    async with registry() as there:
        await alice.push(there.reference("1"), "demo/*")
        await bob.pull(there.reference("1"))
        alice.write(text="print('hello again')")
        await alice.push(there.reference("2"), "demo/hello")
        pulled = await bob.pull(there.reference("2"))
    assert (pulled.written, pulled.removed) == (("tools/demo/hello.py",), ("tools/demo/bye.py",))
    assert b"hello again" in bob.files()["tools/demo/hello.py"]
    assert "tools/demo/bye.py" not in bob.files()


async def test_what_a_killed_pull_left_is_finished_by_the_next(alice: Member, bob: Member) -> None:
    async with registry() as there:
        await alice.push(there.reference("1"), "demo/*")
        await bob.pull(there.reference("1"))
        for name in ("hello", "bye"):
            alice.write(f"demo/{name}", "print('later')")
        await alice.push(there.reference("2"), "demo/*")
        (bob.space / TOOLS[0]).write_bytes(alice.files()[TOOLS[0]])  # the first got its name, no more
        pulled = await bob.pull(there.reference("2"))
    assert pulled.written == TOOLS[1:]
    assert bob.files()[TOOLS[1]] == alice.files()[TOOLS[1]]


async def test_a_skill_that_is_gone_leaves_no_directory(alice: Member, bob: Member) -> None:
    skill_world.written(alice.world)
    async with registry() as there:
        await alice.push(there.reference("1"), "brew-tea", "demo/*")
        await bob.pull(there.reference("1"))
        await alice.push(there.reference("2"), "demo/*")
        pulled = await bob.pull(there.reference("2"))
    assert len(pulled.removed) == 4
    assert sorted(path.name for path in bob.space.iterdir()) == [
        "skills",
        "sources.toml",
        "tools",
        "trusted_keys",
    ]
    assert list((bob.space / "skills").iterdir()) == []


async def test_sync_brings_back_what_is_missing_and_asks_nobody_otherwise(alice: Member, bob: Member) -> None:
    async with registry() as there:
        await alice.push(there.reference(), "demo/*")
        await bob.pull(there.reference())
        await alice.push(there.reference(), "demo/hello")  # the tag means something else by now
        (bob.space / TOOLS[0]).unlink()
        [synced] = (await bob.sync()).sources
        assert synced.written == TOOLS[:1]
        before = len(there.requests)
        [again] = (await bob.sync()).sources
        assert (again.written, again.items, len(there.requests)) == ((), 2, before)
    assert bob.files()[TOOLS[0]] == alice.files()[TOOLS[0]]


@pytest.mark.parametrize("change", [Path.unlink, lambda path: path.write_bytes(b"# mine\n")])
async def test_frozen_changes_nothing_and_names_what_differs(
    alice: Member, bob: Member, change: object
) -> None:
    async with registry() as there:
        await alice.push(there.reference(), "demo/*")
        await bob.pull(there.reference())
    await bob.sync(frozen=True)
    change(bob.space / TOOLS[1])  # type: ignore[operator]
    before = bob.files()
    error = await refused_with("sources_differ", bob.sync(frozen=True))
    assert error.details["files"] == ["tools/demo/hello.py"]
    assert bob.files() == before


async def test_a_disk_that_is_full_leaves_everything_as_it_was(
    alice: Member, bob: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with registry() as there:
        await alice.push(there.reference("1"), "demo/*")
        await bob.pull(there.reference("1"))
        for name in ("hello", "bye"):
            alice.write(f"demo/{name}", "print('later')")
        await alice.push(there.reference("2"), "demo/*")
        before = bob.files()
        replace, given = os.replace, []

        def second_fails(source: str, target: str, **options: int) -> None:
            given.append(target)
            if len(given) == 2:
                raise OSError(28, "No space left on device", target)
            replace(source, target, **options)

        monkeypatch.setattr(os, "replace", second_fails)
        await refused_with("write_failed", bob.pull(there.reference("2")))
    assert given == ["bye.py", "hello.py", "hello.py", "bye.py"]  # what failed, and what was taken back
    assert bob.files() == before
