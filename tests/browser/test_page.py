"""The page in a browser: every view is clicked through, works without a mouse, and is kept up to date."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest

from tests.browser_world import chromium
from tests.node_world import *  # noqa: F403
from tests.node_world import NodePrograms
from tests.people import Person
from tests.ui_house import House, furnished, going_on
from tests.ui_world import RunningPage, started

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page, ViewportSize

pytestmark = pytest.mark.timeout(300)

VIEWS = ("/runs", "/items", "/trust", "/questions", "/health")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def house(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> House:
    return furnished(tmp_path_factory.mktemp("house"))


@pytest.fixture(scope="module")
def running(house: House) -> Iterator[RunningPage]:
    with started(house.person, house.project, with_terminal=True) as page:
        yield page


@pytest.fixture(scope="module")
def context(browser: Browser, running: RunningPage) -> Iterator[BrowserContext]:
    """The one browser that opened the address."""
    made = browser.new_context(base_url=running.address)
    page = made.new_page()
    page.goto(f"{running.address}/#{running.secret}")
    page.wait_for_url("**/runs")
    page.close()
    yield made
    made.close()


@pytest.fixture
def page(context: BrowserContext, running: RunningPage) -> Iterator[Page]:
    """A page in it. Whatever it says to its console, or asks of another server, fails its test."""
    made = context.new_page()
    said: list[str] = []
    made.on("console", lambda message: said.extend([message.text] * _is_fault(message)))
    made.on("pageerror", lambda error: said.append(str(error)))
    made.on("request", lambda request: said.extend([request.url] * _is_foreign(request, running)))
    yield made
    made.close()
    assert said == []


def _is_fault(message: Any) -> bool:
    """Whether a browser complains of the page; a refusal that a test asked for is none."""
    return message.type == "error" and "status of 400" not in message.text


def _is_foreign(request: Any, running: RunningPage) -> bool:
    """Whether it goes anywhere but to the server of the page."""
    return not request.url.startswith(f"{running.address}/")


def test_the_secret_is_gone_from_the_address_and_no_script_reads_the_cookie(page: Page) -> None:
    page.goto("/")
    page.wait_for_url("**/runs")
    assert "#" not in page.url
    assert page.evaluate("document.cookie") == ""


def test_the_first_view_takes_two_requests(browser: Browser, house: House) -> None:
    with started(house.person, house.project) as running:
        made = browser.new_context()
        page = made.new_page()
        asked: list[str] = []
        page.on("request", lambda request: asked.append(f"{request.resource_type} {request.url}"))
        page.goto(f"{running.address}/#{running.secret}")
        page.get_by_role("region", name="Runs that are over").wait_for()
        kinds = ("document", "xhr", "fetch", "script", "stylesheet")
        needed = [each for each in asked if each.startswith(kinds)]
        assert needed[:2] == [f"document {running.address}/", f"xhr {running.address}/session"]
        assert page.url == f"{running.address}/runs"
        page.reload()
        page.get_by_role("region", name="Runs that are over").wait_for()
        made.close()


def test_a_first_view_that_fails_says_why_and_the_other_views_work(browser: Browser, tmp_path: Path) -> None:
    person = Person("eve", tmp_path / "eve")
    person.rye("run", "rye/bash/bash", "--command", "true", cwd=tmp_path)
    [log] = tmp_path.rglob("runs.sqlite3")
    with closing(sqlite3.connect(log)) as connection, connection:
        connection.execute("UPDATE runs SET chain = 'no JSON'")
    with started(person, tmp_path) as running:
        made = browser.new_context()
        page = made.new_page()
        page.goto(f"{running.address}/#{running.secret}")
        page.get_by_role("heading", name="That was refused").wait_for()
        assert page.get_by_text("found DecodeError").is_visible()
        assert page.get_by_text("try the other views").is_visible()
        page.get_by_role("link", name="Items").click()
        page.get_by_role("heading", name="Items").wait_for()
        made.close()


@pytest.mark.parametrize("status", [500, 503])
def test_an_answer_that_is_no_view_does_not_leave_somebody_waiting(
    browser: Browser, house: House, status: int
) -> None:
    with started(house.person, house.project) as running:
        made = browser.new_context()
        page = made.new_page()
        page.route(
            "**/session", lambda route: route.fulfill(status=status, body="no", content_type="text/plain")
        )
        page.goto(f"{running.address}/#{running.secret}")
        page.get_by_text(f"rye ui could not open: {status}").wait_for()
        assert page.get_by_text("Open the address again that rye ui has printed").is_visible()
        assert "#" not in page.url
        page.unroute("**/session")
        page.goto("about:blank")
        page.goto(f"{running.address}/#{running.secret}")
        page.get_by_role("region", name="Runs that are over").wait_for()
        made.close()


def test_every_view_is_reached_by_its_link(page: Page) -> None:
    page.goto("/runs")
    for name in ("Items", "Trust", "Questions", "Health", "Runs"):
        page.get_by_role("navigation", name="Views").get_by_role("link", name=name).click()
        page.wait_for_url(f"**/{name.lower()}")
        assert page.get_by_role("heading", level=1).inner_text() == name
        assert page.locator("nav a[aria-current=page]").inner_text().startswith(name)


def test_runs_are_filtered_and_opened(page: Page, house: House) -> None:
    page.goto("/runs")
    page.get_by_label("State").select_option("error")
    page.get_by_role("button", name="Show").click()
    assert page.get_by_role("link", name="demo/deploy").count() == 1
    assert page.get_by_role("link", name="texts/count_words").count() == 0
    page.get_by_role("link", name="demo/deploy").click()
    assert "cannot reach the host" in page.locator("pre.output").first.inner_text()
    page.goto(f"/runs/{house.runs['texts/report']}")
    assert page.locator("svg.bar").count() == 4
    assert page.locator(".depth-1").count() == 3
    page.get_by_text("What rye verified").click()
    assert page.get_by_text("row_sha256").is_visible()


def test_output_is_searched_and_downloaded(page: Page, house: House, tmp_path: Path) -> None:
    page.goto(f"/runs/{house.runs['demo/logs']}")
    page.get_by_label("Find lines with").fill("request 59999 ")
    page.get_by_role("button", name="Find").click()
    assert "request 59999 took" in page.locator("pre.output").inner_text()
    with page.expect_download() as download:
        page.get_by_role("link", name="Download").click()
    download.value.save_as(tmp_path / "logs.txt")
    assert len((tmp_path / "logs.txt").read_text().splitlines()) == 60000


def test_a_run_appears_is_followed_and_ended(page: Page, house: House) -> None:
    page.goto("/runs")
    with going_on(house) as run_id:
        page.get_by_role("heading", name="Running now").wait_for()
        page.get_by_role("region", name="Runs that are going on").get_by_role(
            "link", name="demo/build"
        ).click()
        page.wait_for_url(f"**/runs/{run_id}")
        page.get_by_text("test 001 ok").wait_for()
        page.get_by_text("test 200 ok").wait_for()
        assert page.locator("[data-since]").inner_text().endswith("s")
        page.get_by_role("button", name="End this run").click()
        page.get_by_role("heading", name="Receipt").wait_for()
    assert page.get_by_text("tool_failed").first.is_visible()


def test_items_are_found_and_shown_with_their_chain(page: Page) -> None:
    page.goto("/items")
    page.get_by_label("What it is for").fill("count the words of a text")
    page.keyboard.press("Enter")
    page.get_by_role("link", name="texts/count_words").click()
    picture = page.get_by_role("img", name="texts/count_words is run by rye/core/runtimes/python_runtime")
    assert picture.evaluate("async image => { await image.decode(); return image.naturalWidth > 0 }")
    assert page.get_by_text("Count two words.", exact=True).is_visible()
    calls = page.get_by_role("heading", name="Calls").locator("..")
    assert calls.get_by_role("link", name="texts/report").is_visible()


def code_in(running: RunningPage) -> str:
    while (found := re.search(r": ([A-Z2-9]{4}-[A-Z2-9]{4})$", running.line())) is None:
        pass
    return found[1]


def test_a_question_is_agreed_to_with_the_code(page: Page, running: RunningPage, house: House) -> None:
    page.goto("/questions")
    assert page.get_by_text("texts = [").is_visible()
    page.get_by_role("button", name="Agree …").click()
    page.get_by_label("the code in the terminal").fill("AAAA-AAAA")
    page.get_by_role("button", name="Confirm").click()
    assert page.get_by_role("heading", name="That was refused").is_visible()
    code_in(running)
    page.goto("/questions")
    page.get_by_role("button", name="Agree …").click()
    page.get_by_label("the code in the terminal").fill(code_in(running))
    page.get_by_role("button", name="Confirm").click()
    page.get_by_text("No question waits.").wait_for()


def test_a_key_is_denied_with_the_code(page: Page, running: RunningPage, house: House) -> None:
    page.goto("/trust")
    assert "BEGIN PUBLIC KEY" in page.locator(".beside pre").first.inner_text()
    page.get_by_role("button", name="Deny it …").click()
    page.get_by_label("the code in the terminal").fill(code_in(running))
    page.get_by_role("button", name="Confirm").click()
    page.get_by_role("cell", name="denied").wait_for()


def test_health_is_drawn(page: Page) -> None:
    page.goto("/health")
    assert page.get_by_role("img").count() == 3
    page.get_by_text("The same as numbers").first.click()
    assert page.get_by_role("columnheader", name="p95").is_visible()


def test_everything_is_reached_with_the_keyboard(page: Page) -> None:
    page.goto("/runs")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "content"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.name") == "tool"


@pytest.mark.parametrize("width", [400, 1100])
def test_no_view_is_wider_than_its_window(page: Page, house: House, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    for path in (*VIEWS, f"/runs/{house.runs['texts/report']}", "/items/tool/texts/count_words"):
        page.goto(path)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path


def test_axe_finds_no_serious_fault(
    node: NodePrograms, browser: Browser, context: BrowserContext, running: RunningPage, house: House
) -> None:
    axe = (node.place / "node_modules/axe-core/axe.min.js").read_text()
    looks: tuple[tuple[Literal["light", "dark"], int], ...] = (("light", 1100), ("dark", 400))
    for scheme, width in looks:
        # Its own script is let in; the cookie is that of the session.
        window: ViewportSize = {"width": width, "height": 800}
        looking = browser.new_context(
            base_url=running.address, color_scheme=scheme, viewport=window, bypass_csp=True
        )
        looking.add_cookies(context.cookies())  # type: ignore[arg-type]
        page = looking.new_page()
        for path in (
            *VIEWS,
            f"/runs/{house.runs['texts/report']}",
            f"/runs/{house.runs['demo/logs']}",
            "/items/tool/texts/count_words",
        ):
            page.goto(path)
            page.evaluate(axe)
            found: dict[str, Any] = page.evaluate("axe.run()")
            assert {"color-contrast", "document-title"} <= {each["id"] for each in found["passes"]}
            faults = [
                (
                    path,
                    scheme,
                    fault["id"],
                    fault["nodes"][0]["html"][:200],
                    fault["nodes"][0]["failureSummary"][:300],
                )
                for fault in found["violations"]
                if fault["impact"] in ("serious", "critical")
            ]
            assert faults == []
        looking.close()
