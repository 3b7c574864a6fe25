"""The runs of the page: the list, one run, what it wrote, what is going on, and its end."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from rye_mcp.runs.records import REFUSED
from tests.people import SCRIPTS, Person
from tests.receipt_world import Ledger, run
from tests.ui_world import ended, opened, tool

LONG = 'for i in $(seq 1 60000); do echo "line $i <b>&amp;</b>"; done'
CALLS = "for i in 1 2; do echo $i; done"


@pytest.fixture(scope="module")
def ada(tmp_path_factory: pytest.TempPathFactory) -> Person:
    return Person("ada", tmp_path_factory.mktemp("ada"))


@pytest.fixture(scope="module")
def project(ada: Person, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = ada.begin(tmp_path_factory.mktemp("project"))
    for name, code in {
        "long": LONG,
        "broken": "echo 'cannot open <script>alert(1)</script>' >&2; exit 3",
        "slow": "printf 'it has begun <b>\\033[2J\\n'; sleep 600",
    }.items():
        ada.sign(tool(made, name, code), made)
    ada.rye("run", "demo/long", cwd=made)
    ada.rye("run", "demo/broken", cwd=made, code=1)
    return made


@pytest.fixture(scope="module")
def page(ada: Person, project: Path) -> Iterator[httpx.Client]:
    with opened(ada, project) as client:
        yield client


def run_of(item_id: str, ada: Person, project: Path) -> str:
    found = ada.rye("log", "--item", item_id, "--json", cwd=project).json["runs"]
    return str(found[0]["run_id"])


def text_of(answer: httpx.Response) -> str:
    assert answer.status_code == 200, answer.text
    return answer.text


def test_the_list_has_each_run_with_its_state_in_words(page: httpx.Client) -> None:
    shown = text_of(page.get("/runs"))
    assert re.search(r"success</span>.*demo/long", shown)
    assert re.search(r"tool_failed</span>.*demo/broken", shown)
    assert re.search(r"[23] in the log", shown)


@pytest.mark.parametrize(
    ("query", "there", "missing"),
    [
        ({"tool": "broken"}, ["demo/broken"], ["demo/long"]),
        ({"tool": "demo/l*"}, ["demo/long"], ["demo/broken"]),
        ({"tool": "demo/long"}, ["demo/long"], ["demo/broken"]),
        ({"state": "error"}, ["demo/broken"], ["demo/long"]),
        ({"state": "success"}, ["demo/long"], ["demo/broken"]),
        ({"state": "tool_failed"}, ["demo/broken"], ["demo/long"]),
        ({"state": "running"}, ["No such run"], ["demo/long"]),
        ({"client": "person", "since": "1h"}, ["demo/long", "demo/broken"], []),
        ({"client": "nobody"}, ["No such run"], ["demo/long"]),
    ],
)
def test_filters_choose(
    page: httpx.Client, query: dict[str, str], there: list[str], missing: list[str]
) -> None:
    rows = text_of(page.get("/runs", params=query)).partition('id="lists"')[2]
    assert all(each in rows for each in there)
    assert not any(each in rows for each in missing)


def test_a_filter_that_is_no_pattern_is_refused_in_words(page: httpx.Client) -> None:
    answer = page.get("/runs", params={"tool": "../x"})
    assert answer.status_code == 400
    assert "That was refused" in answer.text
    assert page.get("/runs", params={"state": "<i>"}).status_code == 400


def test_a_run_is_told_whole(page: httpx.Client, ada: Person, project: Path) -> None:
    shown = text_of(page.get(f"/runs/{run_of('demo/long', ada, project)}"))
    assert "rye/core/runtimes/bash_runtime" in shown
    assert "rye/core/primitives/subprocess" in shown
    assert "The signature was verified just now" in shown
    assert "as it was" in shown
    assert "exited, code 0" in shown


def test_the_end_of_standard_error_is_text(page: httpx.Client, ada: Person, project: Path) -> None:
    shown = text_of(page.get(f"/runs/{run_of('demo/broken', ada, project)}"))
    assert "cannot open &lt;script&gt;alert(1)&lt;/script&gt;" in shown
    assert "<script>alert" not in shown


def test_output_is_searched_read_on_and_downloaded(page: httpx.Client, ada: Person, project: Path) -> None:
    run_id = run_of("demo/long", ada, project)
    address = f"/runs/{run_id}/output/stdout"
    first = text_of(page.get(address))
    assert "line 1 &lt;b&gt;&amp;amp;&lt;/b&gt;" in first
    following = re.search(r'href="([^"]*)" rel="next"', first)
    assert following is not None
    assert "line 1 " not in text_of(page.get(following[1].replace("&amp;", "&")))
    found = text_of(page.get(address, params={"find": "^line 59999 "}))
    assert "line 59999 " in found
    assert "line 59998 " not in found
    assert "No such line" in text_of(page.get(address, params={"find": "nothing like it"}))
    assert "invalid_query" in text_of(page.get(address, params={"find": "("}))

    whole = page.get(f"{address}/download")
    assert whole.headers["content-disposition"] == f'attachment; filename="{run_id}-stdout.txt"'
    assert whole.headers["content-type"] == "application/octet-stream"
    assert whole.text.splitlines()[-1] == "line 60000 <b>&amp;</b>"
    assert page.get(f"/runs/{run_id}/output/stderr/download").status_code == 404


def test_a_receipt_is_downloaded(page: httpx.Client, ada: Person, project: Path) -> None:
    line = page.get(f"/runs/{run_of('demo/long', ada, project)}/receipt")
    path = project / "one.ndjson"
    path.write_bytes(line.content)
    assert "1 receipt verified" in ada.rye("receipt", "verify", str(path), cwd=project).out


def test_what_is_no_run_is_not_found(page: httpx.Client) -> None:
    assert page.get(f"/runs/{'0' * 26}").status_code == 404
    assert page.get("/runs/nothing").status_code == 400
    assert page.get("/runs/..%2f..%2fetc").status_code == 404
    assert page.get("/nothing").status_code == 404


def test_a_run_is_followed_and_ended(page: httpx.Client, ada: Person, project: Path) -> None:
    command = [str(SCRIPTS / "rye"), "run", "demo/slow", "--json"]
    with ended(
        subprocess.Popen(command, cwd=project, env=ada.environment, stdout=subprocess.PIPE)
    ) as process:
        with page.stream("GET", "/runs/changes") as events:
            assert any(line == "event: changed" for line in events.iter_lines())
        while not (found := ada.rye("log", "--status", "running", "--json", cwd=project).json["runs"]):
            assert process.poll() is None
        run_id = found[0]["run_id"]
        assert "Running now" in text_of(page.get("/runs"))
        with page.stream("GET", f"/runs/{run_id}/live") as events:
            lines = events.iter_lines()
            data = next(line for line in lines if line.startswith("data: "))
            assert json.loads(data.removeprefix("data: "))["text"] == "it has begun <b>\\x1b[2J\n"
            shown = text_of(page.get(f"/runs/{run_id}"))
            token = re.search(r'name="token" value="([0-9a-f]+)"', shown)
            assert token is not None
            assert "processes, " in shown
            answer = page.post(f"/runs/{run_id}/end", data={"token": token[1]})
            assert (answer.status_code, answer.headers["location"]) == (303, f"/runs/{run_id}")
            assert any(line == "event: over" for line in lines)
        process.communicate()
        assert process.returncode == 1
    assert "tool_failed" in text_of(page.get(f"/runs/{run_id}"))
    assert page.post(f"/runs/{run_id}/end", data={"token": token[1]}).status_code == 400


def test_many_runs_are_paged_by_key(tmp_path: Path) -> None:
    bob = Person("bob", tmp_path / "bob")
    ledger = Ledger(bob.state / "rye")
    ledger.write(*(run(item_id=f"demo/n{number}") for number in range(120)))
    parent = run(item_id="demo/parent", duration_ms=60_000.0)
    inner = run(item_id="demo/inner", parent=parent.run_id, duration_ms=5.0)
    below = run(item_id="demo/below", parent=inner.run_id, kind=REFUSED, code="call_not_allowed")
    ledger.write(parent, inner, below, run(item_id="demo/beside"))
    with opened(bob, tmp_path) as page:
        seen: list[str] = []
        address: str | None = "/runs"
        while address is not None:
            shown = text_of(page.get(address))
            seen += re.findall(r'class="id">([^<]+)</a>', shown)
            # What is logged meanwhile moves nothing to another page.
            ledger.write(run(item_id="demo/late"))
            following = re.search(r'href="([^"]*)" rel="next"', shown)
            address = None if following is None else following[1]
        assert len(seen) == 124
        assert seen[4:] == [f"demo/n{number}" for number in reversed(range(120))]
        calls = text_of(page.get(f"/runs/{parent.run_id}")).partition("What it called")[2]
        assert re.search(r"depth-1.*demo/inner.*depth-2.*demo/below", calls)
        assert "call_not_allowed" in calls
        assert "demo/beside" not in calls
