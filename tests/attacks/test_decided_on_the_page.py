"""Whatever reaches the page decides nothing: that takes the code that only the terminal of `rye ui` shows."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import httpx
import pytest
from anyio import to_thread
from mcp import Client

from rye_mcp.runs.questions import Questions
from tests.mcp_world import Workshop, facts, python_tool
from tests.people import Person, Publication
from tests.ui_world import RunningPage, started

CODE = re.compile(r": ([A-Z2-9]{4}-[A-Z2-9]{4})$")


@pytest.fixture(scope="module")
def publication(tmp_path_factory: pytest.TempPathFactory) -> Publication:
    return Publication.make(tmp_path_factory.mktemp("publication"))


@pytest.fixture
def bob(tmp_path: Path) -> Person:
    return Person("bob", tmp_path / "bob")


@pytest.fixture
def clone(publication: Publication, bob: Person, tmp_path: Path) -> Path:
    made = publication.clone(tmp_path)
    bob.rye("init", "--no-propose", cwd=tmp_path)
    return made


def fields_of(shown: str, action: str) -> dict[str, str]:
    """What the form for an action sends."""
    for form in re.findall(r"<form[^>]*>.*?</form>", shown, re.DOTALL):
        given = dict(re.findall(r'name="([a-z]+)" value="([^"]*)"', form))
        if f'action="{action}"' in form.partition(">")[0] or given.get("action") == action:
            return given
    raise AssertionError(f"no form for {action}")


def code_in(page: RunningPage) -> str:
    """The code that the terminal shows next."""
    while True:
        found = CODE.search(page.line())
        if found is not None:
            return found[1]


def test_a_key_is_trusted_with_the_code_of_the_terminal_and_not_without(
    bob: Person, clone: Path, publication: Publication
) -> None:
    with started(bob, clone, with_terminal=True) as page, page.open() as browser:
        shown = browser.get("/trust").text
        assert publication.key_id in shown
        assert "the project says" in shown
        accept = fields_of(shown, "accept")
        for guess in ("", "AAAA-AAAA"):
            refused = browser.post("/trust/decide", data={**accept, "number": "0" * 16, "code": guess})
            assert "code_refused" in refused.text
        asked = browser.post("/trust/ask", data=accept).text
        decide = fields_of(asked, "/trust/decide")
        code = code_in(page)
        assert code not in asked
        assert "code_refused" in browser.post("/trust/decide", data={**decide, "code": "AAAA-AAAA"}).text
        denied = {**decide, "action": "deny", "code": code}
        assert "code_refused" in browser.post("/trust/decide", data=denied).text
        assert bob.rye("trust", "review", "--json", cwd=clone).json["keys"]
        assert browser.post("/trust/decide", data={**decide, "code": code}).status_code == 303
        assert bob.rye("trust", "review", "--json", cwd=clone).json["keys"] == []
        assert "accepted" in browser.get("/trust").text


def test_a_document_that_changes_after_it_was_shown_is_not_trusted(bob: Person, clone: Path) -> None:
    with started(bob, clone, with_terminal=True) as page, page.open() as browser:
        accept = fields_of(browser.get("/trust").text, "accept")
        decide = fields_of(browser.post("/trust/ask", data=accept).text, "/trust/decide")
        code = code_in(page)
        [document] = (clone / ".ai/trusted_keys").glob("*.toml")
        document.write_text(document.read_text().replace('owner = "alice"', 'owner = "mallory"'))
        refused = browser.post("/trust/decide", data={**decide, "code": code})
        assert "document_changed" in refused.text
        states = {each["state"] for each in bob.rye("trust", "list", "--json", cwd=clone).json["keys"]}
        assert "accepted" not in states


def test_without_a_terminal_nothing_is_decided(bob: Person, clone: Path) -> None:
    """Whoever may only run commands reads their output, and would read the code there."""
    with started(bob, clone) as page, page.open() as browser:
        shown = browser.get("/trust").text
        assert "was not started in a terminal" in shown
        token = re.search(r'name="token" value="([0-9a-f]+)"', browser.get("/trust").text)
        assert token is None
        [key] = bob.rye("trust", "review", "--json", cwd=clone).json["keys"]
        # With the right token, which nobody was given.
        assert (
            browser.post("/trust/ask", data={"action": "accept", "digest": key["document"]}).status_code
            == 403
        )


# --- questions ---


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    place = tmp_path_factory.mktemp("shop")
    person = Person("ada", place / "ada")
    found = Workshop(person, person.begin(place / "project"))
    found.write("demo/trace", python_tool("open(params['to'], 'a').write('ran')\nprint('{}')"))
    found.sign("demo/trace")
    return found


@asynccontextmanager
async def client(shop: Workshop) -> AsyncIterator[Client]:
    """A client that can ask nobody."""
    async with shop.served("auto", "--confirm", "execute") as connected:
        yield connected


@pytest.fixture
def questions(shop: Workshop) -> Iterator[Questions]:
    found = Questions(shop.person.state / "rye")
    yield found
    for each in found.waiting():
        found.answer(each.number, each.mark, agreed=False)
        found.take(each.mark)


async def test_a_call_is_refused_until_somebody_agrees_and_then_made_once(
    shop: Workshop, questions: Questions, tmp_path: Path
) -> None:
    canary = tmp_path / "canary"
    arguments = {"item_id": "demo/trace", "parameters": {"to": str(canary)}}
    async with client(shop) as connected:
        first = facts(await connected.call_tool("execute", arguments))
        assert first["code"] == "confirmation_required"
        [waiting] = questions.waiting()
        assert f"rye questions agree {waiting.number}" in first["hint"]
        assert str(canary) in waiting.text
        questions.answer(waiting.number, waiting.mark, agreed=True)
        other = {**arguments, "parameters": {"to": f"{canary}2"}}
        assert facts(await connected.call_tool("execute", other))["code"] == "confirmation_required"
        assert not canary.exists()
        assert facts(await connected.call_tool("execute", arguments))["status"] == "success"
        written = canary.read_text()
        assert written
        assert facts(await connected.call_tool("execute", arguments))["code"] == "confirmation_required"
        assert canary.read_text() == written


async def test_a_tool_that_changes_after_somebody_agreed_is_asked_about_again(
    shop: Workshop, questions: Questions, tmp_path: Path
) -> None:
    canary = tmp_path / "canary"
    arguments = {"item_id": "demo/trace", "parameters": {"to": str(canary)}}
    async with client(shop) as connected:
        await connected.call_tool("execute", arguments)
        [waiting] = questions.waiting()
        questions.answer(waiting.number, waiting.mark, agreed=True)
        path = shop.project / ".ai/tools/demo/trace.py"
        path.write_text(path.read_text().replace("'ran'", "'ran elsewhere'"))
        shop.sign("demo/trace")
        assert facts(await connected.call_tool("execute", arguments))["code"] == "confirmation_required"
        assert not canary.exists()


@pytest.mark.first_case
@pytest.mark.parametrize("agrees", [True, False])
async def test_a_call_waits_for_somebody_who_looks_and_agrees_with_the_code(
    shop: Workshop, questions: Questions, tmp_path: Path, agrees: bool
) -> None:
    canary = tmp_path / "canary"
    arguments = {"item_id": "demo/trace", "parameters": {"to": str(canary)}}
    found: dict[str, object] = {}

    def answer(page: RunningPage, browser: httpx.Client) -> None:
        while not questions.waiting():
            assert page.process.poll() is None
        shown = browser.get("/questions").text
        assert f"to = &quot;{canary}&quot;" in shown
        if not agrees:
            assert (
                browser.post("/questions/refuse", data=fields_of(shown, "/questions/refuse")).status_code
                == 303
            )
            return
        given = fields_of(shown, "/questions/ask")
        guess = {**given, "number": "0" * 16, "code": "AAAA-AAAA"}
        assert "code_refused" in browser.post("/questions/agree", data=guess).text
        asked = browser.post("/questions/ask", data=given).text
        agree = fields_of(asked, "/questions/agree")
        code = code_in(page)
        assert code not in asked
        assert not canary.exists()
        assert browser.post("/questions/agree", data={**agree, "code": code}).status_code == 303

    with started(shop.person, shop.project, with_terminal=True) as page, page.open() as browser:
        async with client(shop) as connected, anyio.create_task_group() as group:

            async def call() -> None:
                found.update(facts(await connected.call_tool("execute", arguments)))

            group.start_soon(call)
            await to_thread.run_sync(answer, page, browser)
    assert found.get("code") == (None if agrees else "confirmation_declined")
    assert canary.exists() is agrees


def test_at_a_terminal_somebody_agrees_after_they_were_shown_it(
    shop: Workshop, questions: Questions, tmp_path: Path
) -> None:
    number = questions.ask(
        "a mark", "execute", "demo/trace", "Run demo/trace?\n\x1b[2J", "rye run demo/trace"
    )
    person = shop.person
    person.rye("questions", "agree", str(number), cwd=tmp_path, code=1)
    assert questions.take("a mark") is None
    assert str(number) in person.rye("questions", cwd=tmp_path).out
    assert person.rye("questions", "--json", cwd=tmp_path).json["questions"][0]["item_id"] == "demo/trace"
    person.types([("Agree to this", "n\n")], "questions", "agree", str(number), cwd=tmp_path)
    assert questions.take("a mark") is None
    answer = person.types([("Agree to this", "y\n")], "questions", "agree", str(number), cwd=tmp_path)
    assert "\\x1b[2J" in answer.out
    assert questions.take("a mark") is True
    second = questions.ask("another", "execute", "demo/trace", "Run?", "rye run demo/trace")
    person.rye("questions", "refuse", str(second), cwd=tmp_path)
    assert questions.take("another") is False
    person.rye("questions", "refuse", str(second), cwd=tmp_path, code=1)
