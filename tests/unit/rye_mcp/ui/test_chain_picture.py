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


def test_every_element_is_a_card_with_its_signer(world: World) -> None:
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


MUCH = (
    b"executor_id: binary_runtime\nversion: '1.2.3'\npermissions:\n  project: write\n  read: [~/data]\n"
    b"  write: [/srv/out]\n"
    b"  net: [api.github.com, '*.example.org:8443']\n  uses: [git]\n  env: [A_TOKEN]\n  calls: [demo/other]\n"
)
DOORS: dict[str, tuple[bool, bool]] = {
    "this project: read and write": (True, True),
    "~/data: read": (True, False),
    "/srv/out: read and write": (True, True),
    "*.example.org:8443": (True, True),
    "api.github.com:443": (True, True),
    "may use git in this project": (True, True),
    "the variable A_TOKEN": (True, False),
    "the tool demo/other": (True, True),
}
"""The doors of that tool, in order: whether something goes in, and out."""


def test_each_right_is_a_door_in_the_wall(world: World) -> None:
    drawing = ET.fromstring(as_svg(explained(world, MUCH)))  # noqa: S314 - it is ours
    texts = ["".join(each.itertext()) for each in drawing.iter("{http://www.w3.org/2000/svg}text")]
    assert [text for text in texts if text in DOORS] == list(DOORS)
    drawn = [each.get("d", "") for each in drawing.iter("{http://www.w3.org/2000/svg}path")]
    paths = [
        path for path in drawn if " H" in path
    ]  # arrows through the wall; what leads on is drawn otherwise
    assert ["l-6 5 l6 5" in path for path in paths] == [goes_in for goes_in, _ in DOORS.values()]
    assert ["l6 5 l-6 5" in path for path in paths] == [goes_out for _, goes_out in DOORS.values()]
    assert float(drawing.get("height", 0)) > max(
        float(each.get("y", 0)) for each in drawing.iter("{http://www.w3.org/2000/svg}text")
    )


@pytest.mark.parametrize(
    ("permissions", "shown", "hidden"),
    [
        (b"permissions: {}\n", "no door", "this project"),
        (b"permissions: unconfined\n", "not confined", "no door"),
        (
            b"permissions: {calls: [%s]}\n" % b", ".join(b"a/t%d" % n for n in range(20)),
            "and 4 more",
            "no door",
        ),
    ],
)
def test_a_wall_without_doors_with_many_and_no_wall_at_all(
    world: World, permissions: bytes, shown: str, hidden: str
) -> None:
    svg = as_svg(explained(world, TOOL + permissions))
    assert shown in svg
    assert hidden not in svg


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
