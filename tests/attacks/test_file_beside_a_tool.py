"""Signing a tool signs what it rests on: what a stranger has put there is not made anybody's own unasked."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rye_mcp.trust.dependency_manifest import manifest_file, render_listing
from rye_mcp.trust.keys import SigningKey
from rye_mcp.trust.sign import sign_content
from rye_mcp.verbs._chains import Chains
from rye_mcp.verbs.sign import SignRequest, sign
from tests.lock_world import files_below
from tests.trust_world import World, new_key, refused
from tests.verb_world import RUNTIME, agent, person, put, tool

ANCHORED = (
    RUNTIME
    + b"""\
anchor: {enabled: true, mode: always, root: tool_dir}
verify_deps: {enabled: true, scope: anchor, recursive: true}
"""
)


@pytest.fixture
def stranger() -> SigningKey:
    return new_key()


@pytest.fixture
def anchored(world: World) -> World:
    put(world, ANCHORED, "my/runtime", ".yaml", signed=True)
    put(world, tool("import helper", executor="my/runtime"))
    return world


def directory(world: World) -> Path:
    return world.project / ".ai/tools/demo"


def of_a_stranger(world: World, stranger: SigningKey) -> None:
    world.stored(world.signed(world.file(b"x = 1\n", item_id="demo/helper"), stranger))


def refused_to_an_agent(world: World, *companions: str, code: str = "person_required") -> None:
    before = files_below(world.project)
    refused(code, lambda: sign(SignRequest("demo/hello", companions=companions), agent(world)))
    assert files_below(world.project) == before


def test_an_agent_signs_no_file_of_a_stranger_along_with_its_tool(
    anchored: World, stranger: SigningKey
) -> None:
    of_a_stranger(anchored, stranger)
    refused_to_an_agent(anchored)


def test_an_agent_lists_no_file_of_a_stranger(world: World, stranger: SigningKey) -> None:
    put(world, tool())
    of_a_stranger(world, stranger)
    refused_to_an_agent(world, "helper.py")


def test_an_agent_replaces_no_listing_of_a_stranger(world: World, stranger: SigningKey) -> None:
    put(world, tool())
    file = manifest_file(world.space(), "tools/demo", render_listing({"a.json": "0" * 64}))
    (directory(world) / "deps.manifest.yaml").write_bytes(sign_content(file, stranger))
    (directory(world) / "data.json").write_bytes(b"{}")
    refused_to_an_agent(world, "data.json")


def test_what_a_stranger_listed_is_not_taken_over(world: World, stranger: SigningKey) -> None:
    put(world, tool())
    (directory(world) / "theirs.json").write_bytes(b"{}")
    (directory(world) / "data.json").write_bytes(b"{}")
    file = manifest_file(world.space(), "tools/demo", render_listing({"theirs.json": "0" * 64}))
    (directory(world) / "deps.manifest.yaml").write_bytes(sign_content(file, stranger))
    sign(SignRequest("demo/hello", companions=("data.json",)), person(world))
    chains = Chains(person(world))
    assert set(chains.follow(chains.find("demo/hello")).verified.carried.digests) == {"tools/demo/data.json"}


@pytest.mark.parametrize(
    "name", ["../../../secret", "../secret", "/etc/hostname", "link", "into/secret", "pipe"]
)
def test_a_name_that_leads_elsewhere_lists_nothing(world: World, name: str) -> None:
    put(world, tool())
    (world.root / "secret").write_bytes(b"secret")
    (world.project / ".ai/tools/secret").write_bytes(b"secret")
    (directory(world) / "link").symlink_to(world.root / "secret")
    (directory(world) / "into").symlink_to(world.root)
    os.mkfifo(directory(world) / "pipe")
    refused_to_an_agent(world, name, code="unsafe_path")


def test_a_runtime_that_nobody_signed_says_nothing_about_what_is_signed(world: World) -> None:
    put(world, ANCHORED, "my/runtime", ".yaml")
    put(world, tool(executor="my/runtime"))
    (directory(world) / "helper.py").write_bytes(b"x = 1\n")
    sign(SignRequest("demo/hello"), person(world))
    assert (directory(world) / "helper.py").read_bytes() == b"x = 1\n"
    assert not (directory(world) / "deps.manifest.yaml").exists()


def test_what_was_exchanged_after_it_was_listed_does_not_run(world: World) -> None:
    put(world, tool())
    (directory(world) / "data.json").write_bytes(b"{}")
    sign(SignRequest("demo/hello", companions=("data.json",)), person(world))
    (directory(world) / "data.json").write_bytes(b"[]")
    chains = Chains(person(world))
    refused("content_changed", lambda: chains.follow(chains.find("demo/hello")))
