"""The views of items and of health."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.people import Person
from tests.receipt_world import Ledger, run
from tests.ui_world import opened, tool

HOSTILE = "Greets </p><script>alert(1)</script> people."


@pytest.fixture(scope="module")
def ada(tmp_path_factory: pytest.TempPathFactory) -> Person:
    return Person("ada", tmp_path_factory.mktemp("ada"))


@pytest.fixture(scope="module")
def project(ada: Person, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = ada.begin(tmp_path_factory.mktemp("project"))
    for name in ("greet", "changed"):
        ada.sign(tool(made, name, "echo hello", description=HOSTILE), made)
    tool(made, "unsigned", "echo hello", description="Greets nobody.")
    ada.rye("lock", "update", "demo/changed", cwd=made)
    path = made / ".ai/tools/demo/changed.sh"
    path.write_text(path.read_text().replace("echo hello", "echo goodbye"))
    ada.sign("demo/changed", made)
    ada.rye("run", "demo/greet", cwd=made)
    called = run(item_id="demo/inner", parent=(parent := run(item_id="demo/greet", duration_ms=40.0)).run_id)
    failed = run(item_id="demo/greet", code="timeout", runtime="warm")
    Ledger(ada.state / "rye").write(parent, called, failed)
    return made


@pytest.fixture(scope="module")
def page(ada: Person, project: Path) -> Iterator[httpx.Client]:
    with opened(ada, project) as client:
        yield client


def shown(page: httpx.Client, path: str, **query: str) -> str:
    answer = page.get(path, params=query or None)
    assert answer.status_code == 200, answer.text
    assert "<script>alert" not in answer.text
    return answer.text


def test_items_are_found_by_what_they_are_for(page: httpx.Client) -> None:
    found = shown(page, "/items", q="greet people")
    assert re.search(r"verified</span>.*demo/greet.*by ada|verified</span>.*demo/greet", found)
    assert "&lt;script&gt;" in found
    assert re.search(r"unsigned</span>", found)
    assert "Greets nobody" not in found
    assert "Nothing was found" in shown(page, "/items", q="zzzzqq")
    assert "rye/core/create_tool" in shown(page, "/items", type="directive")


def test_all_items_are_listed_a_page_at_a_time(page: httpx.Client) -> None:
    first = shown(page, "/items")
    following = re.search(r'href="([^"]*)" rel="next"', first)
    assert following is not None
    second = shown(page, following[1].replace("&amp;", "&"))
    assert not set(re.findall(r'class="id">([^<]+)</a>', first)) & set(
        re.findall(r'class="id">([^<]+)</a>', second)
    )


def test_an_item_is_told_whole(page: httpx.Client) -> None:
    found = shown(page, "/items/tool/demo/greet")
    for told in (
        "verified",
        "demo/greet is run by rye/core/runtimes/bash_runtime",
        "It declares nothing",
        "echo hello",
        "It is not locked",
        "Last runs",
    ):
        assert told in found, told
    calls = found.partition("Calls</h2>")[2]
    assert "demo/inner" in calls.partition("May call")[0]
    picture = page.get("/items/tool/demo/greet/chain.svg")
    assert picture.headers["content-type"].startswith("image/svg+xml")
    assert "is run by" in picture.text
    inner = page.get("/items/tool/demo/inner")
    assert inner.status_code == 404


def test_what_is_not_verified_says_so_and_why(page: httpx.Client) -> None:
    found = shown(page, "/items/tool/demo/unsigned")
    assert "rye sign demo/unsigned" in found
    assert "Nothing of this runs" in found


def test_a_lock_that_does_not_hold_is_compared(page: httpx.Client) -> None:
    found = shown(page, "/items/tool/demo/changed")
    assert "The lockfiles of this tool" in found


def test_other_types_have_a_page_too(page: httpx.Client) -> None:
    assert "rye sign &lt;id&gt;" in shown(page, "/items/directive/rye/core/create_tool")
    assert page.get("/items/tool/demo/nothing").status_code == 404
    assert page.get("/items/nothing/demo/greet").status_code == 404
    assert page.get("/items/tool/..%2f..%2fetc/passwd").status_code in (400, 404)


def test_health_counts_what_has_run(page: httpx.Client) -> None:
    found = shown(page, "/health")
    assert re.search(r"<strong>4</strong> <span class=\"faint\">calls", found)
    assert re.search(r"<strong>1</strong> <span class=\"faint\">failed", found)
    assert re.search(r"<strong>50 %</strong> <span class=\"faint\">warm", found)
    assert found.count("<svg") == 3
    assert "The last week" in shown(page, "/health", span="7d")


@pytest.mark.thorough
def test_health_checks_what_the_doctor_checks(page: httpx.Client) -> None:
    found = shown(page, "/health", check="1")
    assert "it answers in a bare environment" in found
    assert "system space" in found
