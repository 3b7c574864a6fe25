"""`rye/http/fetch` through the executor, from a real server: what becomes of each kind of answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.http_server import serve
from tests.page_world import FETCH, Pages, fetch
from tests.runtime_workshop import Workshop
from tests.trust_world import World

PAGE = """<!doctype html><html><head><title> A  page &amp; more </title><style>p {}</style></head><body>
<nav><a href="/">Home</a></nav><h1>Heading</h1>
<p>See <a href="../x?a=1&amp;b=2">this</a>, <a href="javascript:alert(1)">that</a> and <b>more</b>.</p>
<script>document.write("no")</script><template>no</template><!-- no -->
<ul><li>one</li><li>two</li></ul>
<pre><code>x = 1
  y = 2
</code></pre>
<table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>
<img src="i.png" alt="a picture"><img src="data:image/png;base64,AAAA" alt="no">
</body></html>"""

MARKDOWN = """[Home]({url}/)

# Heading

See [this]({url}/x?a=1&b=2), that and **more**.

- one
- two

```
x = 1
  y = 2
```

| a | b |
| --- | --- |
| 1 | 2 |

![a picture]({url}/deep/i.png)
"""

PAGES = Pages(
    {
        "/deep/page": ("text/html; charset=utf-8", PAGE.encode()),
        "/moved": ("redirect", b"/deep/page"),
        "/based": ("text/html", b'<base href="https://example.org/a/"><a href="b">b</a>'),
        "/bad%20links": ("text/html", b'<a href="http://[">one</a> <a href="http://[::1]:x/">two</a>'),
        "/text": ("text/plain", "grüße\n".encode()),
        "/json": ("application/json", b'{"success": false, "rows": [1, 2]}'),
        "/long": ("text/plain", b"0123456789" * 10),
        "/long.json": ("application/json", b'{"rows": [' + b"1," * 40_000 + b"1]}"),
        "/bytes": ("application/octet-stream", bytes(range(256))),
        "/latin": ("text/html; charset=iso-8859-1", "<p>grüße</p>".encode("latin-1")),
        "/huge": ("text/html", b"<p>first</p>" + b"<p>" * 100 + b" " * (2 << 20) + b"<p>last</p>"),
        "/failing": ("500", b"out of order"),
    }
)


async def test_html_becomes_markdown_with_absolute_links_and_nothing_that_is_not_seen(tmp_path: Path) -> None:
    async with serve(PAGES) as server:
        found = await fetch(tmp_path, url=f"{server.url}/moved")
        assert found.success, found.error
        assert found.sealed is True
        assert found.data == {
            "url": f"{server.url}/deep/page",
            "status": 200,
            "content_type": "text/html",
            "format": "markdown",
            "title": "A  page & more",
            "content": MARKDOWN.format(url=server.url),
        }
        assert "cookie" not in server.requests[0].headers
        raw = await fetch(tmp_path, url=f"{server.url}/deep/page", raw=True)
        assert (raw.data["format"], raw.data["content"]) == ("html", PAGE)


@pytest.mark.first_case
@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/text", {"format": "text", "content": "grüße\n"}),
        ("/json", {"format": "json", "content": {"success": False, "rows": [1, 2]}}),
        ("/latin", {"format": "markdown", "content": "grüße\n"}),
        ("/based", {"format": "markdown", "content": "[b](https://example.org/a/b)\n"}),
        ("/bad%20links", {"format": "markdown", "content": "one two\n"}),
        ("/huge", {"format": "markdown", "content": "first\n", "truncated": True}),
        ("/bytes", {"format": "base64", "content_type": "application/octet-stream"}),
    ],
)
async def test_each_kind_of_answer_has_its_format(
    tmp_path: Path, path: str, expected: dict[str, Any]
) -> None:
    async with serve(PAGES) as server:
        found = await fetch(tmp_path, url=f"{server.url}{path}")
    assert found.success, found.error
    assert {name: found.data[name] for name in expected} == expected


async def test_a_long_answer_comes_in_pieces(tmp_path: Path) -> None:
    async with serve(PAGES) as server:
        url, pieces, start = f"{server.url}/long", [], 0
        while start is not None:
            data = (await fetch(tmp_path, url=url, start=start, length=30)).data
            pieces.append(data["content"])
            start = data.get("next_start")
        assert "".join(pieces) == "0123456789" * 10
        assert [len(piece) for piece in pieces] == [30, 30, 30, 10]
        long = (await fetch(tmp_path, url=f"{server.url}/long.json", start=0, length=20)).data
    assert (long["format"], long["content"], long["next_start"]) == ("text", '{"rows":[1,1,1,1,1,1'[:20], 20)


async def test_a_bad_status_is_a_failure_with_what_the_server_said(tmp_path: Path) -> None:
    async with serve(PAGES) as server:
        found = await fetch(tmp_path, url=f"{server.url}/failing")
    assert (found.success, found.code, found.error) == (False, "tool_failed", "HTTP 500: Status")
    assert found.data["content"] == "out of order"
    assert found.hint == "read its data: it says why"
    assert found.exit is not None
    assert found.exit.status_code == 500


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"url": "file:///etc/passwd"},
        {"url": "/etc"},
        {"url": "http://a", "headers": {}},
        {"url": "http://a", "length": 0},
    ],
)
async def test_parameters_that_it_does_not_have_are_refused(
    tmp_path: Path, parameters: dict[str, Any]
) -> None:
    found = await fetch(tmp_path, **parameters)
    assert (found.success, found.code, found.run_id) == (False, "invalid_parameters", None)


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("http://ada:word@example.org/", "expected no user name in url, found one"),
        ("http:///x", "expected an absolute http or https URL for url, found 'http:///x'"),
    ],
)
async def test_an_invalid_address_is_refused_in_the_words_of_the_caller(
    tmp_path: Path, url: str, problem: str
) -> None:
    assert (await fetch(tmp_path, url=url)).error == problem


OWN_TOOL = """\
name: quick
version: "1.0.0"
description: Fetch, with hardly any time to convert.
executor_id: rye/core/primitives/page
config_schema: {type: object, properties: {url: {type: string}}}
config: {convert_timeout: 0.001}
"""


async def test_a_page_that_cannot_be_converted_in_time_is_given_as_it_is(tmp_path: Path) -> None:
    workshop = Workshop(World(tmp_path))
    tool = workshop.sign("demo/quick.yaml", OWN_TOOL)
    async with serve(PAGES) as server:
        found = await fetch(tmp_path, tool, url=f"{server.url}/deep/page")
    assert (found.data["format"], found.data["content"]) == ("html", PAGE)


async def test_a_dry_run_asks_nobody(tmp_path: Path) -> None:
    workshop = Workshop(World(tmp_path))
    (workshop.project / ".ai").mkdir(parents=True)
    from rye_mcp.executor.primitive_executor import PrimitiveExecutor

    executor = PrimitiveExecutor(
        workshop.project, user_space=workshop.world.user_space.parent, state=workshop.world.state
    )
    async with serve(PAGES) as server:
        shown = await executor.dry_run(FETCH, {"url": f"{server.url}/text"})
        assert server.requests == []
    await executor.close()
    assert shown.job["command"] == ["GET", "{url}"]
