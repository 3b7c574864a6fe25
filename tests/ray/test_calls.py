"""Calls on a Ray cluster are what they are everywhere else, and run on the nodes that fit."""

from __future__ import annotations

import pytest

from tests.ray_world import RaySite

pytestmark = pytest.mark.anyio


async def test_a_call_runs_on_a_node_of_the_cluster(site: RaySite) -> None:
    site.engine()
    result = await site.run("demo/count", {"word": "hello"})
    assert (result.success, result.data) == (True, {"word": "hello"})
    assert result.node.key_id in [node.key.public.key_id for node in site.grid.nodes]
