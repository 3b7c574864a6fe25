"""Attack: what is pulled takes the place of what somebody else signed, or of what a person wrote."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from rye_mcp.errors import RyeError
from rye_mcp.items import SpaceName
from rye_mcp.verbs.load import LoadRequest, load
from rye_mcp.verbs.pull import PullRequest, pull
from rye_mcp.verbs.push import PushRequest, push
from tests.registry_world import Member, author_in, member_in, registry
from tests.verb_world import agent, person, put

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
    return caught.value


async def test_a_changed_signer_is_refused_until_a_person_says_so(
    alice: Member, bob: Member, tmp_path: Path
) -> None:
    carol = member_in(tmp_path / "carol")
    carol.write(text="print('of carol')")
    carol.world.propose(carol.document)
    async with registry() as there:
        await alice.push(there.reference(), "demo/hello")
        await bob.pull(there.reference())
        await carol.push(there.reference(), "demo/hello")
        before = bob.files()
        error = await refused_with("signer_changed", bob.pull(there.reference()))
        assert f"--new-signer {carol.key_id}" in error.hint
        assert bob.files() == before
        await refused_with("signer_changed", bob.pull(there.reference(), accepted=(bob.key_id,)))
        await bob.pull(there.reference(), accepted=(carol.key_id,))
    assert b"of carol" in bob.files()["tools/demo/hello.py"]


async def test_sync_does_not_take_the_word_of_the_pins_for_a_changed_signer(
    alice: Member, bob: Member, tmp_path: Path
) -> None:
    carol = member_in(tmp_path / "carol")
    carol.world.propose(carol.document)
    carol.write(text="print('of carol')")
    async with registry() as there:
        await alice.push(there.reference(), "demo/hello")
        await bob.pull(there.reference())
        await carol.push(there.reference(), "demo/hello")
        dave = member_in(tmp_path / "dave")
        await dave.pull(there.reference())
        (bob.space / "sources.toml").write_bytes(dave.files()["sources.toml"])
        await refused_with("signer_changed", bob.sync(overwrite=True))
        await bob.sync(overwrite=True, accepted=(carol.key_id,))
    assert b"of carol" in bob.files()["tools/demo/hello.py"]


@pytest.mark.parametrize("there_is", ["the file", "another file", "no file"])
async def test_pull_does_not_take_the_word_of_the_pins_for_a_changed_signer(
    alice: Member, bob: Member, tmp_path: Path, there_is: str
) -> None:
    carol = member_in(tmp_path / "carol")
    carol.world.propose(carol.document)
    carol.write(text="print('of carol')")
    async with registry() as there:
        await alice.push(there.reference(), "demo/hello")
        bob.trusts(alice)
        await bob.pull(there.reference())
        load(LoadRequest("demo/hello"), person(bob.world))  # it is on record from now on
        place, pins = bob.space / TOOLS[1], bob.space / "sources.toml"
        digest = hashlib.sha256(place.read_bytes()).hexdigest()
        match there_is:
            case "another file":
                place.write_bytes(b"print('of nobody')\n")
            case "no file":
                place.unlink()
        if place.exists():
            text = pins.read_text().replace(digest, hashlib.sha256(place.read_bytes()).hexdigest())
            pins.write_text(text)
        pins.write_text(pins.read_text().replace(alice.key_id, carol.key_id))
        await carol.push(there.reference(), "demo/hello")
        before = bob.files()
        await refused_with("signer_changed", bob.pull(there.reference()))
        assert bob.files() == before
        await bob.pull(there.reference(), accepted=(carol.key_id,))
    assert b"of carol" in bob.files()[TOOLS[1]]


SHELL = b"# /// rye\n# version: 1.3.0\n# executor_id: bash_runtime\n# ///\necho of carol\n"


@pytest.mark.parametrize("trusted", [True, False])
async def test_a_file_with_another_extension_is_the_same_item(
    alice: Member, bob: Member, tmp_path: Path, trusted: bool
) -> None:
    carol = member_in(tmp_path / "carol")
    carol.world.propose(carol.document)
    put(carol.world, SHELL, "demo/Hello" if trusted else "demo/hello", ".sh", signed=True)
    if trusted:
        bob.trusts(alice)
        bob.trusts(carol)
    async with registry() as there:
        await alice.push(there.reference(), "demo/hello")
        await bob.pull(there.reference())
        await carol.push(there.reference(), "demo/*")
        before = bob.files()
        await refused_with("signer_changed", bob.pull(there.reference()))
        assert bob.files() == before
        await bob.pull(there.reference(), accepted=(carol.key_id,))
    assert any(b"of carol" in content for content in bob.files().values())


async def test_an_item_that_was_left_out_in_between_is_still_its_signers(
    alice: Member, bob: Member, tmp_path: Path
) -> None:
    carol = member_in(tmp_path / "carol")
    carol.world.propose(carol.document)
    carol.write(text="print('of carol')")
    bob.trusts(alice)
    bob.trusts(carol)
    async with registry() as there:
        await alice.push(there.reference(), "demo/*")
        await bob.pull(there.reference())
        await alice.push(there.reference(), "demo/bye")
        assert (await bob.pull(there.reference())).removed == (TOOLS[1],)
        await carol.push(there.reference(), "demo/hello")
        await refused_with("signer_changed", bob.pull(there.reference()))
        await refused_with("signer_changed", bob.pull(there.reference()))  # a refusal records nothing
        await bob.pull(there.reference(), accepted=(carol.key_id,))
    assert b"of carol" in bob.files()[TOOLS[1]]


async def test_what_nobody_signed_hides_no_signer_when_it_is_overwritten(
    alice: Member, bob: Member, tmp_path: Path
) -> None:
    carol = member_in(tmp_path / "carol")
    carol.world.propose(carol.document)
    carol.write(text="print('of carol')")
    bob.trusts(alice)
    async with registry() as there:
        await alice.push(there.reference(), "demo/hello")
        await bob.pull(there.reference())
        (bob.space / "sources.toml").unlink()
        (bob.space / TOOLS[1]).write_bytes(b"# of nobody\n")
        await carol.push(there.reference(), "demo/hello")
        await refused_with("signer_changed", bob.pull(there.reference(), overwrite=True))
    assert bob.files()[TOOLS[1]] == b"# of nobody\n"


async def test_the_list_of_a_project_that_nobody_approved_names_no_server_to_ask(
    alice: Member, bob: Member
) -> None:
    async with registry() as there:
        await alice.push(there.reference(), "demo/*")
        await bob.pull(there.reference())
        (bob.space / TOOLS[0]).unlink()
        approvals = person(bob.world).trust.approvals
        assert approvals is not None
        approvals.approve_project(approved=False)
        before = len(there.requests)
        await refused_with("project_not_approved", bob.sync())
        assert len(there.requests) == before


async def test_an_agent_neither_pushes_nor_pulls(alice: Member) -> None:
    context, network = agent(alice.world), alice.network
    async with registry() as there:
        asked = push(PushRequest(there.reference(), ("demo/*",)), context, network.put)
        await refused_with("person_required", asked)
        asked_too = pull(PullRequest(there.reference()), context, network.fetch)
        await refused_with("person_required", asked_too)
        assert there.requests == []


@pytest.mark.parametrize("tag", ["1", "2"])
async def test_what_was_edited_here_stays_unless_it_may_go(alice: Member, bob: Member, tag: str) -> None:
    async with registry() as there:
        await alice.push(there.reference("1"), "demo/*")
        await bob.pull(there.reference("1"))
        (bob.space / "tools/demo/bye.py").write_bytes(b"# mine\n")
        await alice.push(there.reference("2"), "demo/hello")  # bye.py is gone there
        before = bob.files()
        error = await refused_with("edited_locally", bob.pull(there.reference(tag)))
        assert error.details["files"] == ["tools/demo/bye.py"]
        assert bob.files() == before
        await bob.pull(there.reference(tag), overwrite=True)
    assert bob.files().get("tools/demo/bye.py") == (
        alice.files()["tools/demo/bye.py"] if tag == "1" else None
    )


async def test_what_stood_there_before_the_first_pull_stays(alice: Member, bob: Member) -> None:
    bob.write(text="print('of bob')")
    async with registry() as there:
        await alice.push(there.reference(), "demo/*")
        before = bob.files()
        await refused_with("signer_changed", bob.pull(there.reference()))
        await refused_with("edited_locally", bob.pull(there.reference(), accepted=(alice.key_id,)))
    assert bob.files() == before


async def test_another_file_with_the_same_id_is_in_the_way(alice: Member, bob: Member) -> None:
    (bob.space / "tools/demo").mkdir(parents=True)
    (bob.space / "tools/demo/hello.sh").write_bytes(b"#!/bin/sh\n")
    async with registry() as there:
        await alice.push(there.reference(), "demo/*")
        before = bob.files()
        await refused_with("ambiguous_item", bob.pull(there.reference()))
    assert bob.files() == before


async def test_a_stranger_signs_nothing_for_the_user_space(alice: Member, bob: Member) -> None:
    async with registry() as there:
        await alice.push(there.reference(), "demo/*")
        await refused_with("untrusted_key", bob.pull(there.reference(), space=SpaceName.USER))
        assert not (bob.world.user_space / "tools").exists()
        bob.trusts(alice)
        await bob.pull(there.reference(), space=SpaceName.USER)
    loaded = load(LoadRequest("demo/hello", source=SpaceName.USER), person(bob.world))
    assert loaded.integrity.state == "verified"
