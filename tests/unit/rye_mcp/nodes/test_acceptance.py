"""Who may send calls to a node, and which nodes a server names: keys of runners, each for ids that can be."""

from __future__ import annotations

from pathlib import Path

import pytest

from rye_mcp.nodes.acceptance import accept, forget
from rye_mcp.nodes.engines import find_engine
from rye_mcp.nodes.items import document_key
from rye_mcp.nodes.submitters import ACCEPTED
from rye_mcp.spaces import Spaces
from rye_mcp.trust.scope import SignerKind
from rye_mcp.trust.trust_document import TrustDocument
from tests.trust_world import new_key, refused
from tests.worker_world import Pair, bash_tool


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return Pair.at(tmp_path.resolve())


@pytest.mark.parametrize("ids", [("",), ("../x",), ("demo/*", "a b"), ("**",)])
def test_a_server_is_accepted_for_ids_that_can_be(pair: Pair, ids: tuple[str, ...]) -> None:
    assert "a pattern such as" in refused("invalid_id", lambda: pair.accept(*ids)).message
    assert pair.submitters.all() == ()


def test_a_server_that_was_not_accepted_cannot_be_forgotten(pair: Pair) -> None:
    pair.accept()
    state, submitters = pair.node.world.state, pair.submitters
    refused("unknown_key", lambda: forget(pair.key_of(pair.node).public.key_id, state, submitters))
    assert len(pair.submitters.all()) == 1


@pytest.mark.parametrize("kind", [SignerKind.PERSON, SignerKind.AGENT])
def test_the_key_of_a_signer_is_that_of_no_machine(pair: Pair, tmp_path: Path, kind: SignerKind) -> None:
    document = TrustDocument.create(new_key(kind).public, "mia", kind=kind)
    place = tmp_path / document.file_name
    place.write_bytes(document.data)
    error = refused("unusable_key", lambda: document_key(place))
    assert "the key of a runner" in error.message
    state = pair.node.world.state
    refused("unusable_key", lambda: accept(document.data, place, state, pair.submitters, ids=["*"]))
    pair.accept()
    accepted = state / ACCEPTED / document.file_name
    accepted.write_bytes(document.data)
    accepted.chmod(0o600)
    refused("malformed_trust", lambda: pair.submitters.key(document.key.key_id))


def test_a_tool_in_the_directory_of_engines_is_no_engine(pair: Pair) -> None:
    world = pair.server.world
    pair.server.sign("engines/mine.sh", bash_tool("true"))
    file = world.project / ".ai/tools/engines/mine.sh"
    there = world.user_space / "tools/engines/mine.sh"
    there.parent.mkdir(parents=True)
    file.rename(there)
    spaces = Spaces.locate(world.project, user=world.user_space.parent)
    error = refused("invalid_item", lambda: find_engine("mine", spaces, world.trust()))
    assert "expected an engine in your user space" in error.message
