"""Over any sequence of versions of a tool, nothing that passes silently is wider than what was agreed to."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from rye_mcp.executor.chain.builder import Chain, ChainElement
from rye_mcp.executor.chain.files import BundledFiles
from rye_mcp.executor.chain.verifier import VerifiedChain
from rye_mcp.executor.lock.agreement import Comparison, agreed_before
from rye_mcp.items import ItemFile, ItemType
from rye_mcp.metadata import parse_metadata
from rye_mcp.permissions import UNCONFINED, Access, Permissions, read_permissions
from rye_mcp.trust.scope import Evidence, Origin, Role, Signer, SignerKind
from rye_mcp.trust.verify import Trust, VerifiedItem
from tests.permission_strategies import anything
from tests.trust_world import World

OWN, LEO, AGENT = "own", "leo", "agent"


@dataclass(frozen=True)
class Version:
    """A version of a tool: who signed it, what it declares, and what a person says who is asked about it."""

    by: str
    declares: Permissions | None
    answer: bool

    @property
    def may(self) -> Permissions:
        if self.declares is not None:
            return self.declares
        return Permissions(project=Access.WRITE) if self.by == AGENT else UNCONFINED


declarable = anything.filter(lambda each: not read_permissions(each.canonical())[1])

versions = st.lists(
    st.builds(
        Version, st.sampled_from([OWN, LEO, LEO, AGENT]), st.one_of(st.none(), declarable), st.booleans()
    ),
    max_size=8,
)


def chain_of(version: Version, world: World, own: str) -> VerifiedChain:
    said = "" if version.declares is None else f"permissions: {json.dumps(version.declares.canonical())}\n"
    content = f"version: 1.0.0\nexecutor_id: subprocess\n{said}".encode()
    file = ItemFile(world.space(), ItemType.TOOL, "demo/hello", ".yaml", Path("/a"), content)
    element = ChainElement(file, parse_metadata(file))
    key_id = own if version.by == OWN else version.by[0] * 64
    kind = SignerKind.AGENT if version.by == AGENT else SignerKind.PERSON
    signer = Signer(kind, version.by, key_id[:16], key_id, Origin.USER)
    item = VerifiedItem(file, "0" * 64, signer, None, Evidence.SIGNATURE, Role.TOOL)
    return VerifiedChain(Chain((element,)), (item,), BundledFiles.__new__(BundledFiles))


@settings(max_examples=60, deadline=None)
@given(versions)
def test_nothing_that_passes_silently_is_wider_than_what_was_agreed(found: list[Version]) -> None:
    with TemporaryDirectory() as place:
        world = World(Path(place))
        own = world.key().public.key_id
        agreed: Permissions | None = None
        for version in found:
            trust = world.trust()
            verified = chain_of(version, world, own)
            comparison = Comparison.of(verified, trust)
            asks = bool(comparison.widened)
            is_wider = agreed is not None and not version.may.is_within(agreed)
            is_handed = agreed == UNCONFINED and bool(version.may.env or version.may.secrets)
            assert asks == ((is_wider or is_handed) and version.by != OWN)
            if asks and not version.answer:
                continue
            comparison.keep(trust)
            if asks or version.by == OWN or (agreed is None and version.by == LEO):
                agreed = version.may
            assert kept(verified, world.trust()) == agreed


def kept(verified: VerifiedChain, trust: Trust) -> Permissions | None:
    return agreed_before(verified.root, trust)
