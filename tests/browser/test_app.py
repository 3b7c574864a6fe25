"""The view of a run in Chromium, in the frame of a small host, whose calls a real server answers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from anyio.from_thread import start_blocking_portal
from mcp import Client
from mcp.client.extension import advertise
from mcp.client.stdio import stdio_client
from mcp.types import TextResourceContents

from tests.browser_world import chromium
from tests.mcp_world import Workshop, python_tool, workshop
from tests.node_world import *  # noqa: F403
from tests.node_world import NodePrograms
from tests.people import Person

__all__ = ["workshop"]

if TYPE_CHECKING:
    from anyio.from_thread import BlockingPortal
    from playwright.sync_api import Browser, FrameLocator, Page

pytestmark = pytest.mark.timeout(300)

SHOWS = advertise("io.modelcontextprotocol/ui", {"mimeTypes": ["text/html;profile=mcp-app"]})
POLICY = (
    "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; media-src 'self' data:; connect-src 'none'"
)
"""What a host must enforce for a document that declares nothing."""

HOST = """
window.heard = [];
const act = async (name, given) => JSON.parse(await window.call_tool(name, JSON.stringify(given)));
addEventListener("message", async (event) => {
  const frame = document.querySelector("iframe");
  if (event.source !== frame.contentWindow) return;
  const { id, method, params } = event.data;
  window.heard.push(event.data);
  const send = (more) => frame.contentWindow.postMessage({ jsonrpc: "2.0", ...more }, "*");
  const notify = (name, params) => send({ method: `ui/notifications/${name}`, params });
  if (method === "ui/initialize") {
    const hostContext = { theme: window.theme }, hostInfo = { name: "a test", version: "1" };
    const hostCapabilities = { serverTools: {} };
    send({ id, result: { protocolVersion: "2026-01-26", hostInfo, hostContext, hostCapabilities } });
  } else if (method === "ui/notifications/initialized") {
    notify("tool-input", { arguments: window.call });
    notify("tool-result", await act("execute", window.call));
  } else if (method === "tools/call") {
    send({ id, result: await act(params.name, params.arguments) });
  } else if (method === "ui/update-model-context") {
    send({ id, result: {} });
  }
});
"""
FORGED = r"""() => {
  const other = document.createElement("iframe");
  other.sandbox = "allow-scripts";
  addEventListener("message", (event) => {
    if (event.source !== other.contentWindow) return;
    other.remove();
    const ping = { jsonrpc: "2.0", id: "after", method: "ping" };
    document.querySelector("iframe").contentWindow.postMessage(ping, "*");
  });
  const params = { structuredContent: { code: "forged" } };
  const result = JSON.stringify({ jsonrpc: "2.0", method: "ui/notifications/tool-result", params });
  const send = `parent.frames[0].postMessage(${result}, "*"); parent.postMessage("sent", "*");`;
  other.srcdoc = `<script>${send}<\/script>`;
  document.body.append(other);
}"""
GREET = python_tool('print(json.dumps({"greeting": "Hello, " + params["name"]}))')
HIDING = "<img src=x onerror=\"parent.postMessage('out', '*')\">\u202egpj"
LOUD = python_tool("for number in range(60000): print('line', number)")
WAITING = """#!/usr/bin/env bash
# /// rye
# version: 1.0.0
# description: Waits until it is ended.
# executor_id: rye/core/runtimes/bash_runtime
# ///
echo begun; sleep 600
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture
def portal() -> Iterator[BlockingPortal]:
    with start_blocking_portal() as found:
        yield found


@dataclass
class Host:
    """A page with the view in a frame, and a client of the server beside it."""

    page: Page
    portal: BlockingPortal
    client: Client

    def show(self, call: dict[str, Any], *, theme: str = "light") -> FrameLocator:
        """Make a call, and show what comes of it as the tool's `_meta` says."""
        tools = self.portal.call(self.client.list_tools).tools
        [execute] = [tool for tool in tools if tool.name == "execute"]
        assert execute.meta is not None
        found = self.portal.call(self.client.read_resource, execute.meta["ui"]["resourceUri"])
        policy = f'<meta http-equiv="content-security-policy" content="{POLICY}">'
        [content] = found.contents
        assert isinstance(content, TextResourceContents)
        document = content.text.replace("<head>", f"<head>{policy}", 1)
        self.page.set_content("<!doctype html><iframe sandbox='allow-scripts' width=600 height=700></iframe>")
        self.page.evaluate(f"window.call = {json.dumps(call)}; window.theme = {json.dumps(theme)};{HOST}")
        self.page.evaluate("text => { document.querySelector('iframe').srcdoc = text }", document)
        return self.page.frame_locator("iframe")

    def heard(self, method: str) -> list[dict[str, Any]]:
        """What the view has said with this method."""
        found: list[dict[str, Any]] = self.page.evaluate("window.heard")
        return [message for message in found if message.get("method") == method]

    def call_tool(self, name: str, arguments: str) -> str:
        """Pass a call of the view on to the server."""
        result = self.portal.call(self.client.call_tool, name, json.loads(arguments))
        found: str = result.model_dump_json(by_alias=True, exclude_none=True)
        return found


@pytest.fixture
def confirm() -> tuple[str, ...]:
    """The options of the server."""
    return ()


@pytest.fixture
def host(
    browser: Browser, portal: BlockingPortal, workshop: Workshop, confirm: tuple[str, ...]
) -> Iterator[Host]:
    parameters = workshop.parameters(*confirm, installed=True)
    with portal.wrap_async_context_manager(Client(stdio_client(parameters), extensions=[SHOWS])) as client:
        context = browser.new_context()
        made = Host(context.new_page(), portal, client)
        faults: list[str] = []
        made.page.on("pageerror", lambda error: faults.append(str(error)))
        made.page.on("console", lambda said: faults.extend([said.text] * (said.type == "error")))
        made.page.expose_function("call_tool", made.call_tool)
        yield made
        context.close()
        assert faults == []


def test_a_run_is_shown_and_nothing_of_it_is_markup(host: Host, workshop: Workshop) -> None:
    workshop.write("demo/greet", GREET)
    workshop.sign("demo/greet")
    view = host.show({"item_id": "demo/greet", "parameters": {"name": HIDING}})
    view.get_by_text("success").wait_for()
    assert view.get_by_role("heading", level=1).inner_text() == "demo/greet"
    text = view.locator("pre.output").first.inner_text()
    assert "<img src=x" in text
    assert "\\u{202e}gpj" in text
    assert view.locator("img").count() == 0
    assert re.fullmatch("[0-9a-f]{64}", view.locator("dt:has-text('Receipt') + dd").inner_text())
    assert host.page.evaluate("window.heard.includes('out')") is False
    assert host.heard("ui/notifications/size-changed") != []


def test_only_its_host_is_heard(host: Host) -> None:
    """Another frame of the same page can send it messages too."""
    view = host.show({"item_id": "demo/nothing"})
    view.get_by_text("item_not_found").wait_for()
    host.page.evaluate(FORGED)
    host.page.wait_for_function("window.heard.some((each) => each.id === 'after')")
    assert view.get_by_text("item_not_found").is_visible()
    assert view.get_by_text("forged").count() == 0


@pytest.mark.parametrize(("theme", "ground"), [("light", "rgb(251, 250, 247)"), ("dark", "rgb(22, 26, 25)")])
def test_it_looks_like_its_host(host: Host, theme: str, ground: str) -> None:
    view = host.show({"item_id": "demo/nothing"}, theme=theme)
    view.get_by_text("item_not_found").wait_for()
    assert view.locator("body").evaluate("body => getComputedStyle(body).backgroundColor") == ground


@pytest.mark.parametrize("confirm", [("--confirm", "execute")])
def test_axe_finds_no_serious_fault(node: NodePrograms, host: Host, workshop: Workshop) -> None:
    """In what came of a call, in a refusal and in a question, in light and in dark, wide and narrow."""
    axe = (node.place / "node_modules/axe-core/axe.min.js").read_text()
    workshop.write("demo/greet", GREET)
    workshop.sign("demo/greet")
    question = {"item_id": "demo/greet", "parameters": {"name": "Ada"}}
    refusal = {"item_id": "demo/nothing"}
    for theme in ("light", "dark"):
        for call, text in ((question, "waits for your yes"), (refusal, "item_not_found")):
            view = host.show(call, theme=theme)
            view.get_by_text(text).first.wait_for()
            require_no_serious_fault(host, axe)
        agree(workshop.person, waiting_question(host, question, theme), workshop.project)
        host.page.frame_locator("iframe").get_by_role("button", name="Call again").click()
        host.page.frame_locator("iframe").get_by_text("Hello, Ada").wait_for()
        for width in (320, 900):
            host.page.locator("iframe").evaluate("(frame, width) => { frame.width = width }", width)
            require_no_serious_fault(host, axe)
            document = host.page.frame_locator("iframe").locator("html")
            assert document.evaluate("html => html.scrollWidth") <= width


def waiting_question(host: Host, call: dict[str, Any], theme: str) -> str:
    """Make a call that asks; the number of its question."""
    view = host.show(call, theme=theme)
    view.get_by_text("waits for your yes").wait_for()
    found = re.search(r"rye questions agree (\d+)", view.locator("body").inner_text())
    assert found is not None
    return found[1]


def require_no_serious_fault(host: Host, axe: str) -> None:
    frame = host.page.frames[-1]
    frame.evaluate(axe)
    found: dict[str, Any] = frame.evaluate("axe.run()")
    assert {"color-contrast", "document-title"} <= {each["id"] for each in found["passes"]}
    serious = [each for each in found["violations"] if each["impact"] in ("serious", "critical")]
    assert [(each["id"], each["nodes"][0]["html"][:200]) for each in serious] == []


def test_a_run_in_the_background_is_looked_at_and_ended(host: Host, workshop: Workshop) -> None:
    workshop.write("demo/waiting", WAITING, extension="sh")
    workshop.sign("demo/waiting")
    view = host.show({"item_id": "demo/waiting", "async": True})
    view.get_by_text("running").wait_for()
    view.get_by_role("button", name="Look again").click()
    view.get_by_role("button", name="End this run").click()
    view.get_by_text("cancelled").wait_for()
    assert view.get_by_role("button", name="End this run").count() == 0
    calls = [message["params"]["arguments"]["action"] for message in host.heard("tools/call")]
    assert calls == ["status", "cancel"]


def test_output_that_was_cut_is_read_in_pieces(host: Host, workshop: Workshop) -> None:
    workshop.write("demo/loud", LOUD)
    workshop.sign("demo/loud")
    view = host.show({"item_id": "demo/loud"})
    view.get_by_role("button", name="Read data").click()
    pieces = view.locator("section pre")
    pieces.nth(1).wait_for()
    while view.get_by_role("button", name="Go on").count():
        count = pieces.count()
        view.get_by_role("button", name="Go on").click()
        pieces.nth(count).wait_for()
    read = "".join(pieces.nth(number).inner_text() for number in range(1, pieces.count()))
    assert read.split("\n")[:60000] == [f"line {number}" for number in range(60000)]


@pytest.mark.parametrize("confirm", [("--confirm", "execute")])
def test_a_question_is_shown_and_the_call_made_again_once_a_person_agreed(
    host: Host, workshop: Workshop
) -> None:
    workshop.write("demo/greet", GREET)
    workshop.sign("demo/greet")
    number = waiting_question(host, {"item_id": "demo/greet", "parameters": {"name": "Ada"}}, "light")
    view = host.page.frame_locator("iframe")
    assert '"name": "Ada"' in view.locator("pre.output").inner_text()
    view.get_by_role("button", name="Call again").click()
    view.get_by_text("waits for your yes").wait_for()  # nothing of the view can agree
    agree(workshop.person, number, workshop.project)
    view.get_by_role("button", name="Call again").click()
    view.get_by_text("Hello, Ada").wait_for()
    [*_, told] = host.heard("ui/update-model-context")
    assert "Hello, Ada" in json.dumps(told)


def agree(person: Person, number: str, cwd: Path) -> None:
    """Say yes, as a person at a terminal."""
    person.types([("y/N", "y\n")], "questions", "agree", number, cwd=cwd)
