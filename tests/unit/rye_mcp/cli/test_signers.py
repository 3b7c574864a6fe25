"""How trust is told to people, and what their answers mean."""

import pytest
import typer
from typer.main import get_command

from rye_mcp.cli._signers import key_lines
from rye_mcp.cli._terminal import parse_choice
from rye_mcp.cli.keys import keys
from rye_mcp.cli.trust import trust
from rye_mcp.trust.decisions import KeyState, KnownKey
from rye_mcp.trust.key_words import scope_text
from rye_mcp.trust.scope import Origin, Role, Scope, SignerKind
from rye_mcp.trust.trust_document import TrustDocument
from tests.trust_world import new_key


@pytest.mark.parametrize(
    ("answer", "chosen"),
    [
        ("", ()),
        ("  ", ()),
        ("1", (1,)),
        ("3 1", (1, 3)),
        ("2,2", (2,)),
        ("all", (1, 2, 3)),
        (" all ", (1, 2, 3)),
    ],
)
def test_an_answer_names_what_it_names(answer: str, chosen: tuple[int, ...]) -> None:
    assert parse_choice(answer, 3) == chosen


@pytest.mark.parametrize(
    "answer", ["0", "4", "-1", "1-3", "yes", "1 x", "all 1", "ALL", "\u0661", "01", "1.0"]
)
def test_an_answer_that_is_not_understood_decides_nothing(answer: str) -> None:
    with pytest.raises(typer.BadParameter, match="expected numbers from 1 to 3"):
        parse_choice(answer, 3)


@pytest.mark.parametrize(
    ("scope", "origin", "kind", "text"),
    [
        (
            Scope(),
            Origin.USER,
            SignerKind.PERSON,
            "tools, runtimes, primitives, engines, directives, knowledge, skills of every "
            "project and of yours, any id",
        ),
        (
            Scope(),
            Origin.PROJECT,
            SignerKind.PERSON,
            "tools, directives, knowledge, skills of this project, any id not below rye/",
        ),
        (
            Scope(ids=("*", "rye/x"), roles=frozenset({Role.RUNTIME})),
            Origin.PROJECT,
            SignerKind.PERSON,
            "runtimes of this project, any id not below rye/, and rye/x",
        ),
        (
            Scope(ids=("leo/*", "mia/x")),
            Origin.USER,
            SignerKind.AGENT,
            "tools, directives, knowledge, skills of a project, ids leo/* mia/x",
        ),
        (
            Scope(roles=frozenset({Role.RUNTIME, Role.TOOL})),
            Origin.USER,
            SignerKind.AGENT,
            "tools of a project, any id not below rye/",
        ),
        (
            Scope(ids=("rye/*",), roles=frozenset({Role.TOOL})),
            Origin.PROJECT,
            SignerKind.AGENT,
            "tools of this project, no id",
        ),
        (
            Scope(roles=frozenset({Role.PRIMITIVE})),
            Origin.PROJECT,
            SignerKind.AGENT,
            "nothing: an agent signs no runtimes and no primitives",
        ),
    ],
)
def test_what_a_key_may_sign_is_what_the_gate_lets_it(
    scope: Scope, origin: Origin, kind: SignerKind, text: str
) -> None:
    assert scope_text(scope, origin, kind) == text


def test_a_claim_is_told_as_one_and_nothing_in_it_is_obeyed() -> None:
    document = TrustDocument.create(new_key().public, "mia")
    row = KnownKey(
        document.key.key_id,
        KeyState.UNDECIDED,
        "mia\x1b[2K (you)",
        SignerKind.AGENT,
        Origin.PROJECT,
        key=document.key,
        document=document,
    )
    assert key_lines(row)[0] == "the project says: mia\\x1b[2K (you) (an agent)"


@pytest.mark.parametrize("group", [keys, trust], ids=["keys", "trust"])
def test_every_command_has_json_and_a_line_of_help(group: typer.Typer) -> None:
    command = get_command(group)
    commands = getattr(command, "commands", {})
    assert commands
    for name, each in commands.items():
        assert any("--json" in parameter.opts for parameter in each.params), name
        assert each.help, name
