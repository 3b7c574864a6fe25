"""The picture of a chain: what it is made of is in it, and nothing of a file becomes part of the drawing."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from rye_mcp.ui.chain_picture import as_mermaid, as_svg
from rye_mcp.verbs.explain import ExplainRequest, Explanation, explain
from tests.trust_world import World
from tests.verb_world import person, put

TOOL = b"executor_id: binary_runtime\nversion: '1.2.3'\n"
HOSTILE = b'executor_id: binary_runtime\nversion: "1.0.0"\nname: "</svg><script>alert(1)</script>"\n'


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def explained(world: World, content: bytes = TOOL, *, signed: bool = True) -> Explanation:
    put(world, content, "demo/hello", ".yaml", signed=signed)
    return anyio.run(explain, ExplainRequest("demo/hello"), person(world))


def test_every_element_is_a_card_with_who_vouches_for_it(world: World) -> None:
    svg = as_svg(explained(world))
    drawing = ET.fromstring(svg)  # noqa: S314 - it is ours
    texts = ["".join(each.itertext()) for each in drawing.iter("{http://www.w3.org/2000/svg}text")]
    for shown in ("demo/hello", "rye/core/runtimes/binary_runtime", "rye/core/primitives/subprocess"):
        assert shown in texts
    assert any("1.2.3" in text for text in texts)
    assert sum("✓ verified" in text for text in texts) == 3
    assert any("sealed" in text for text in texts)


def test_what_is_refused_is_shown_with_its_code(world: World) -> None:
    explanation = explained(world, signed=False)
    svg = as_svg(explanation)
    assert explanation.refusal is not None
    assert "✗ unsigned" in svg
    assert svg.count("✓ verified") == 2


@pytest.mark.parametrize("draw", [as_svg, as_mermaid])
def test_the_same_explanation_gives_the_same_picture(
    world: World, draw: Callable[[Explanation], str]
) -> None:
    explanation = explained(world)
    assert draw(explanation) == draw(explanation)


def test_mermaid_links_each_element_with_what_runs_it(world: World) -> None:
    chart = as_mermaid(explained(world))
    assert chart.startswith("flowchart TD\n")
    assert "e0 -->|executor| e1" in chart
    assert "e1 -->|executor| e2" in chart


@pytest.mark.parametrize("draw", [as_svg, as_mermaid])
def test_nothing_that_a_file_says_becomes_part_of_the_drawing(
    world: World, draw: Callable[[Explanation], str]
) -> None:
    assert "<script" not in draw(explained(world, HOSTILE))
