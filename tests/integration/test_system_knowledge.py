"""What the system space tells an agent: found by a plain question, true, short, and good as it stands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from rye_mcp.catalog import Catalog
from rye_mcp.errors import RyeError
from rye_mcp.items import MAX_ID_SEGMENTS, ItemType, SpaceName
from rye_mcp.mcp_server.greeting import INSTRUCTIONS
from rye_mcp.spaces import Spaces
from rye_mcp.verbs.execute import ExecuteRequest, execute
from rye_mcp.verbs.search import SearchRequest, search
from tests.page_examples import examples_of, play
from tests.trust_world import World
from tests.verb_world import agent

SYSTEM = Path(__file__).resolve().parents[2] / ".ai"
KNOWLEDGE = sorted(SYSTEM.glob("knowledge/rye/core/*.md"))
DIRECTIVES = sorted(SYSTEM.glob("directives/rye/core/*.md"))
SUBPROCESS = YAML(typ="safe", pure=True).load(SYSTEM / "tools/rye/core/primitives/subprocess.yaml")[
    "config_schema"
]
WORDS_AT_MOST = 1200
"""How long a text may be that a model reads before it does something else."""

CODES_AT_MOST = 1800
"""The page of codes is a table that the code knows, and has a row for each of them."""

QUESTIONS = [
    ("how do I write a tool", "knowledge", "rye/core/authoring"),
    ("where do I put the file of a new tool", "knowledge", "rye/core/authoring"),
    ("example of a tool in Python", "knowledge", "rye/core/authoring"),
    ("how are parameters passed to a bash script?", "knowledge", "rye/core/authoring"),
    ("what can I put in the metadata of a tool", "knowledge", "rye/core/metadata"),
    ("which fields does the front matter of a directive have", "knowledge", "rye/core/metadata"),
    ("what is config_schema", "knowledge", "rye/core/metadata"),
    ("why is my tool refused", "knowledge", "rye/core/trust"),
    ("who may sign a runtime?", "knowledge", "rye/core/trust"),
    ("untrusted_key", "knowledge", "rye/core/trust"),
    ("what does the error code lock_mismatch mean", "knowledge", "rye/core/errors"),
    ("how do I search for two words together", "knowledge", "rye/core/queries"),
    ("which operators does a search have?", "knowledge", "rye/core/queries"),
    ("which languages can a tool be written in, and what is executor_id", "knowledge", "rye/core/runtimes"),
    ("how do I run a lua script: is there a runtime?", "knowledge", "rye/core/runtimes"),
    ("make a new tool", "directive", "rye/core/create_tool"),
    ("there is no tool for this, I have to write one", "directive", "rye/core/create_tool"),
    ("run tools in another language such as Lua", "directive", "rye/core/create_runtime"),
    ("is this tool safe to sign? review it", "directive", "rye/core/review_tool"),
    ("audit the security of a tool before I trust it", "directive", "rye/core/review_tool"),
]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """A project with nothing in it."""
    return World(tmp_path_factory.mktemp("empty"))


@pytest.fixture(scope="module")
def catalog(world: World) -> Iterator[Catalog]:
    with Catalog.open(agent(world).spaces, world.root / "cache") as catalog:
        catalog.refresh()
        yield catalog


@pytest.mark.parametrize(("question", "scope", "expected"), QUESTIONS, ids=[each[0] for each in QUESTIONS])
def test_a_plain_question_finds_the_right_text(
    world: World, catalog: Catalog, question: str, scope: str, expected: str
) -> None:
    found = search(SearchRequest(question, scope=scope), agent(world), catalog)
    assert [shown.item_id for shown in found.results][:1] == [expected]


EXAMPLES = [(page.stem, example) for page in KNOWLEDGE for example in examples_of(page)]


@pytest.mark.first_case
@pytest.mark.parametrize(
    ("_page", "example"), EXAMPLES, ids=[f"{page}: {each.title}" for page, each in EXAMPLES]
)
async def test_an_example_gives_what_the_text_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, _page: str, example: Any
) -> None:
    assert example.calls
    await play(example, tmp_path, monkeypatch)


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 5


@pytest.mark.parametrize(
    ("name", "inputs"),
    [
        ("create_tool", {"task": "Resize a picture."}),
        ("create_tool", {"task": "Resize a picture.", "id": "demo/resize", "language": "ruby"}),
        ("create_runtime", {"language": "Lua"}),
        ("review_tool", {"id": "demo/hello"}),
    ],
)
async def test_a_directive_is_filled_with_its_inputs(world: World, name: str, inputs: dict[str, str]) -> None:
    request = ExecuteRequest(f"rye/core/{name}", ItemType.DIRECTIVE, inputs)
    answer = (await execute(request, agent(world))).as_dict()
    assert all(value in answer["instructions"] for value in inputs.values())
    assert "{input:" not in answer["instructions"]


@pytest.mark.parametrize(
    ("name", "inputs"),
    [
        ("create_tool", {}),
        ("create_tool", {"task": "x", "language": "cobol"}),
        ("create_runtime", {}),
        ("review_tool", {"id": ""}),
    ],
)
async def test_wrong_inputs_of_a_directive_are_refused(
    world: World, name: str, inputs: dict[str, str]
) -> None:
    with pytest.raises(RyeError) as caught:
        await execute(ExecuteRequest(f"rye/core/{name}", ItemType.DIRECTIVE, inputs), agent(world))
    assert caught.value.code == "invalid_parameters"


@pytest.mark.parametrize("page", [*KNOWLEDGE, *DIRECTIVES], ids=lambda page: page.stem)
def test_a_text_is_short_and_names_only_what_is_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    most = CODES_AT_MOST if page.stem == "errors" else WORDS_AT_MOST
    assert len(text.replace("|", " ").split()) <= most
    spaces = Spaces.locate()
    ids = {place.item_id for each in ItemType for place in spaces.list(SpaceName.SYSTEM, each).items}
    named = set(re.findall(r"`(rye/core/[\w/]*\w)`", text))
    assert named <= ids


def test_the_server_names_the_directive_that_an_agent_begins_with() -> None:
    [named] = re.findall(r"rye/core/(\w+)", INSTRUCTIONS)
    assert named in {page.stem for page in DIRECTIVES}


def test_the_limits_in_the_texts_are_those_of_the_code() -> None:
    authoring = " ".join((SYSTEM / "knowledge/rye/core/authoring.md").read_text(encoding="utf-8").split())
    defaults = {name: each["default"] for name, each in SUBPROCESS["properties"].items() if "default" in each}
    assert f"up to {MAX_ID_SEGMENTS} segments" in authoring
    assert f"Limits: {defaults['timeout']} s and {defaults['max_output'] >> 20} MiB" in authoring


def test_the_texts_are_those_that_are_promised() -> None:
    assert {page.stem for page in KNOWLEDGE} == {
        "authoring", "errors", "metadata", "queries", "runtimes", "trust"
    }  # fmt: skip
    assert {page.stem for page in DIRECTIVES} == {"create_runtime", "create_tool", "review_tool"}
