"""A person decides in their own space where calls run: no project, no agent, and no key for tools."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rye_mcp.errors import RyeError
from rye_mcp.items import SpaceName
from rye_mcp.nodes.items import engine_text
from rye_mcp.trust.scope import Role, Scope, SignerKind
from rye_mcp.trust.trust_document import TrustDocument
from rye_mcp.trust.trust_store import revoke
from tests.engine_world import Site, tool
from tests.trust_world import new_key

pytestmark = pytest.mark.anyio


@pytest.fixture
def site(tmp_path: Path) -> Site:
    made = Site(tmp_path.resolve())
    made.pair.accept()
    made.pair.trust()
    made.pair.server.sign("demo/count.sh", tool())
    return made


async def code_of(site: Site) -> str:
    with pytest.raises(RyeError) as caught:
        await site.run()
    assert (site.ran_here, site.pair.counted) == (False, 0), "it runs nowhere"
    return caught.value.code


async def test_an_engine_of_a_project_counts_for_nothing(site: Site) -> None:
    site.engine(space=SpaceName.PROJECT)
    assert (await site.run()).success
    assert (site.ran_here, site.pair.counted) == (True, 0)
    assert not site.told.exists(), "nothing was started"


async def test_an_engine_of_a_project_stands_in_place_of_none_of_the_user(site: Site) -> None:
    site.engine()
    site.engine(space=SpaceName.PROJECT, host="evil.example.org")
    assert (await site.run()).success
    assert "evil" not in site.told.read_text()


async def test_an_engine_that_an_agent_signed(site: Site) -> None:
    site.engine(key=site.pair.server.world.key(SignerKind.AGENT))
    assert await code_of(site) == "out_of_scope"


async def test_an_engine_that_was_signed_with_a_key_for_tools(site: Site) -> None:
    mia = new_key()
    scope = Scope(roles=frozenset({Role.TOOL, Role.RUNTIME}))
    site.pair.server.world.trust_key(TrustDocument.create(mia.public, "mia", scope=scope))
    site.engine(key=mia)
    assert await code_of(site) == "out_of_scope"


async def test_an_engine_that_was_changed_after_it_was_signed(site: Site) -> None:
    path = site.engine()
    path.write_bytes(path.read_bytes().replace(b"gpu1", b"gpu2"))
    assert await code_of(site) == "content_changed"


async def test_an_engine_that_nobody_signed(site: Site) -> None:
    path = site.engine()
    text = engine_text("gpu1", {"via": "ssh", "host": "gpu1", "nodes": [site.node_key], "takes": ["*"]})
    path.write_text(text)
    assert await code_of(site) == "unsigned"


async def test_a_tool_in_the_place_of_an_engine_starts_nothing(site: Site) -> None:
    world = site.pair.server.world
    file = world.file(tool().encode(), item_id="engines/gpu1", extension=".sh", space=SpaceName.USER)
    world.stored(world.signed(replace(file)))
    site.engine("gpu2")
    (world.user_space / "tools/engines/gpu1.yaml").write_text("tool_type: engine\n")
    assert await code_of(site) == "ambiguous_item"
    assert not site.told.exists()


async def test_a_node_whose_key_this_user_has_revoked(site: Site) -> None:
    site.engine()
    revoke(site.pair.server.world.user_space, site.node_key, "stolen")
    assert await code_of(site) == "engine_unreachable"
