"""The page of `rye ui`, asked for by pages of others, other users and programs; and what items say on it."""

from __future__ import annotations

import json
import re
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from rye_mcp.ui.events import MAX_EVENT_BYTES
from rye_mcp.ui.guard import OPEN_PATHS
from tests.people import SCRIPTS, Person
from tests.receipt_world import Ledger, run
from tests.ui_world import RunningPage, ended, started, tool
from tests.users import ADA, two_users

HIDING = "</td><script>alert(1)</script><img src=x onerror=alert(1)>\x1b[2J\u202egpj\u200b"


@pytest.fixture(scope="module")
def person(tmp_path_factory: pytest.TempPathFactory) -> Person:
    return Person("ada", tmp_path_factory.mktemp("ada"))


@pytest.fixture(scope="module")
def project(person: Person, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = person.begin(tmp_path_factory.mktemp("project"))
    person.sign(tool(made, "slow", "echo begun; sleep 600"), made)
    return made


@pytest.fixture(scope="module")
def page(person: Person, project: Path) -> Iterator[RunningPage]:
    with started(person, project) as running:
        yield running


@pytest.fixture(scope="module")
def browser(page: RunningPage) -> Iterator[httpx.Client]:
    with page.open() as client:
        yield client


@pytest.fixture
def run_id(person: Person, project: Path) -> Iterator[str]:
    """A run that is going on, which each of these tries to end."""
    command = [str(SCRIPTS / "rye"), "run", "demo/slow"]
    with ended(
        subprocess.Popen(command, cwd=project, env=person.environment, stdout=subprocess.PIPE)
    ) as process:
        while not (found := person.rye("log", "--status", "running", "--json", cwd=project).json["runs"]):
            assert process.poll() is None
        yield found[0]["run_id"]
        assert process.poll() is None, "it was ended"


def token_of(browser: httpx.Client, run_id: str) -> str:
    found = re.search(r'name="token" value="([0-9a-f]+)"', browser.get(f"/runs/{run_id}").text)
    assert found is not None
    return found[1]


@pytest.mark.first_case
@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1", "https://127.0.0.1:1", "http://localhost"]
)
def test_a_page_of_somebody_else_reads_and_changes_nothing(
    browser: httpx.Client, run_id: str, origin: str
) -> None:
    token, headers = token_of(browser, run_id), {"origin": origin}
    assert browser.get("/runs", headers=headers).status_code == 403
    assert browser.post(f"/runs/{run_id}/end", data={"token": token}, headers=headers).status_code == 403
    assert browser.post("/session", content="x", headers=headers).status_code == 403


def test_a_form_without_an_origin_or_without_its_token_changes_nothing(
    browser: httpx.Client, run_id: str
) -> None:
    token = token_of(browser, run_id)
    request = browser.build_request("POST", f"/runs/{run_id}/end", data={"token": token})
    del request.headers["origin"]
    assert browser.send(request).status_code == 403
    for data in ({}, {"token": ""}, {"token": "0" * 32}):
        assert browser.post(f"/runs/{run_id}/end", data=data).status_code == 403
    assert browser.get(f"/runs/{run_id}/end").status_code == 405
    assert browser.post(f"/runs/{run_id}/end", content=b"x" * (1 << 20)).status_code == 413


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "[::1]", ""])
def test_a_name_that_was_led_to_this_machine_opens_nothing(
    page: RunningPage, browser: httpx.Client, host: str
) -> None:
    for path in ("/runs", "/", "/icon.svg"):
        assert browser.get(path, headers={"host": host}).status_code in (400, 421)


def test_the_address_opens_one_browser_and_no_second_one(page: RunningPage, browser: httpx.Client) -> None:
    assert browser.get("/runs").status_code == 200
    with page.client() as second:
        assert second.post("/session", content=page.secret).status_code == 403
        assert second.get("/runs").status_code == 401


def test_without_the_cookie_no_path_says_anything(
    page: RunningPage, browser: httpx.Client, run_id: str
) -> None:
    with page.client() as stranger:
        stranger.cookies.set(f"rye_{page.port}", "a guess")
        for path in (
            "/runs",
            f"/runs/{run_id}",
            "/runs/changes",
            f"/runs/{run_id}/live",
            "/items",
            "/nothing",
        ):
            assert stranger.get(path).status_code == 401
        for path in OPEN_PATHS - {"/session"}:
            answer = stranger.get(path)
            assert answer.status_code == 200
            assert "demo/slow" not in answer.text
        assert (
            stranger.post(f"/runs/{run_id}/end", data={"token": token_of(browser, run_id)}).status_code == 401
        )


def test_no_page_is_where_another_server_may_have_been(
    person: Person, project: Path, page: RunningPage
) -> None:
    """What a server of another user left in the browser for a port of 127.0.0.1 would be asked before it."""
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", page.port)).close()
    with started(person, project) as second:
        hosts = {page.host, second.host, "127.0.0.1"}
    assert len(hosts) == 3
    assert all(each.startswith("127.") for each in hosts)


@two_users
def test_another_user_of_the_machine_is_not_even_answered(page: RunningPage, browser: httpx.Client) -> None:
    """With the cookie, which browsers send to every port of this machine."""
    cookie = f"rye_{page.port}={browser.cookies[f'rye_{page.port}']}"
    lines = (
        "GET /runs HTTP/1.1",
        f"Host: {page.host}:{page.port}",
        "Connection: close",
        f"Cookie: {cookie}",
        "",
        "",
    )
    request = "\\r\\n".join(lines)
    script = f"exec 3<>/dev/tcp/{page.host}/{page.port}; printf '{request}' >&3; timeout 5 cat <&3"
    done = subprocess.run(["bash", "-c", script], user=ADA, group=ADA, cwd="/", capture_output=True)
    assert done.stdout == b""
    ours = subprocess.run(["bash", "-c", script], capture_output=True)
    assert ours.stdout.startswith(b"HTTP/1.1 200")


def test_what_the_log_has_is_text_on_the_page(
    person: Person, project: Path, page: RunningPage, browser: httpx.Client
) -> None:
    record = run(
        item_id="demo/x",
        code="tool_failed",
        stderr_end=HIDING,
        parameters=(HIDING,),
        client=HIDING,
        signer=HIDING,
    )
    Ledger(person.state / "rye").write(record)
    shown = ""
    for path in ("/runs?client=%3Cscript%3E", "/runs", f"/runs/{record.run_id}"):
        shown = browser.get(path).text
        assert "<script>alert" not in shown
        assert "onerror=alert(1)>" not in shown
        assert not set(shown) & {"\x1b", "\u202e", "\u200b"}
    assert "&lt;script&gt;alert(1)" in shown


@pytest.mark.parametrize("size", [10**8, pytest.param(10**9, marks=pytest.mark.thorough)])
def test_a_line_without_end_is_shown_in_part(
    person: Person, project: Path, browser: httpx.Client, size: int
) -> None:
    """Whatever a run writes, an event, a page and the memory of its process are within their limits."""
    tool(
        project,
        "endless",
        f"head -c {size} /dev/zero | tr '\\0' '<'; while :; do echo the end; sleep 0.1; done",
    )
    person.sign("demo/endless", project)
    command = [str(SCRIPTS / "rye"), "run", "demo/endless"]
    endless = subprocess.Popen(command, cwd=project, env=person.environment, stdout=subprocess.DEVNULL)
    with ended(endless):
        ids: list[str] = []
        while not ids:
            found = person.rye("log", "--item", "demo/endless", "--status", "running", "--json", cwd=project)
            ids = [each["run_id"] for each in found.json["runs"]]
        text = ""
        with browser.stream("GET", f"/runs/{ids[0]}/live") as events:
            data = (line.removeprefix("data: ") for line in events.iter_lines() if line.startswith("data: "))
            while "the end" not in text:
                text = json.loads(next(data))["text"]
                assert len(text) <= MAX_EVENT_BYTES
        assert len(browser.get(f"/runs/{ids[0]}").text) < 100_000
        [most] = re.findall(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{endless.pid}/status").read_text())
        assert int(most) < 200_000


def test_a_head_without_end_is_not_read(page: RunningPage) -> None:
    with socket.create_connection((page.host, page.port)) as connection:
        connection.sendall(b"GET /" + b"a" * (1 << 17))
        assert b"400" in connection.recv(64)
