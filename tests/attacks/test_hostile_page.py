"""A page that wants to be read where it may not, to hang the server, or to tell a model what nobody sees."""

from __future__ import annotations

import time
from pathlib import Path

import anyio
import pytest

from tests.http_server import serve
from tests.page_world import Pages, fetch
from tests.runtime_workshop import Workshop
from tests.trust_world import World

DEEP = 20_000
HTML = "text/html"

IMPATIENT = """\
name: impatient
version: "1.0.0"
description: Fetch, with two seconds to convert.
executor_id: rye/core/primitives/page
config_schema: {type: object, properties: {url: {type: string}}}
config: {convert_timeout: 2}
"""


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://169.254.169.254/latest/meta-data/", "link-local"),
        ("http://[::1]/", "loopback"),
        ("http://2130706434/", "loopback"),
        ("http://10.0.0.1/", "private"),
    ],
)
async def test_an_address_that_is_not_public_is_never_asked(tmp_path: Path, url: str, reason: str) -> None:
    found = await fetch(tmp_path, url=url)
    assert (found.success, found.data) == (False, None)
    assert (found.error or "").endswith(f"is not public ({reason})")
    assert found.hint == "name an address of the public web"


async def test_a_redirect_to_an_address_that_is_not_public_is_not_followed(tmp_path: Path) -> None:
    async with serve(Pages({"/secret": ("text/plain", b"secret")}), host="127.0.0.2") as inner:
        pages = Pages({"/": ("redirect", f"{inner.url}/secret".encode())})
        async with serve(pages) as server:
            found = await fetch(tmp_path, url=f"{server.url}/")
        assert (found.success, found.data) == (False, None)
        assert inner.requests == []


BOMBS = {
    "/nested": "<div>" * DEEP + "text" + "</div>" * DEEP,
    "/inline": "<b><i>" * DEEP + "text",
    "/open": "<" * 100_000,
    "/comments": "<!--" * 400_000,
    "/attributes": "<a " + "x='y' " * 50_000 + ">text</a>",
    "/declarations": "<![" * 50_000,
}


@pytest.mark.thorough
async def test_pages_that_were_made_to_take_long_hold_nobody_up(tmp_path: Path) -> None:
    """The event loop goes on, and each answer comes when the time to convert is over, at the latest."""
    tool = Workshop(World(tmp_path)).sign("demo/impatient.yaml", IMPATIENT)
    longest, formats = 0.0, set()

    async def watch() -> None:
        nonlocal longest
        while True:
            before = time.perf_counter()
            await anyio.sleep(0.01)
            longest = max(longest, time.perf_counter() - before)

    async def read(url: str) -> None:
        found = await fetch(tmp_path, tool, url=url)
        assert found.success, found.error
        formats.add(found.data["format"])

    pages = Pages({path: (HTML, text.encode()) for path, text in BOMBS.items()})
    async with serve(pages) as server, anyio.create_task_group() as watching:
        watching.start_soon(watch)
        with anyio.fail_after(20):
            async with anyio.create_task_group() as group:
                for path in BOMBS:
                    group.start_soon(read, f"{server.url}{path}")
        watching.cancel_scope.cancel()
    assert "html" in formats, "expected a page that could not be converted in time"
    assert longest < 1


async def test_what_nobody_sees_is_not_read_to_a_model(tmp_path: Path) -> None:
    page = (
        "<p>seen</p><p hidden>canary</p><div style='color: red; DISPLAY : none'><p>canary</p></div>"
        "<span style=\"visibility:hidden\">canary</span><!-- canary --><noscript>canary</noscript>"
        "<template>canary</template><svg><text>canary</text></svg><input value=canary>"
        "<script>canary</script><style>canary</style><iframe srcdoc=canary>canary</iframe>"
        "<p style='display:/* x */none'>canary</p><p style='opacity: 0.0'>canary</p>"
        "<p style='color:red;font-size:0px'>canary</p><p style='visibility:collapse'>canary</p>"
        "<dialog>canary</dialog><datalist><option>canary</datalist><noframes>canary</noframes>"
        "<noembed>canary</noembed><![CDATA[canary]]><?canary ?>"
    )  # fmt: skip
    async with serve(Pages({"/": (HTML, page.encode())})) as server:
        found = await fetch(tmp_path, url=f"{server.url}/")
    assert found.data["content"] == "seen\n"


async def test_what_is_seen_stays_however_like_the_unseen_it_is_styled(tmp_path: Path) -> None:
    styles = (
        "opacity: 0.5",
        "font-size:0.8em",
        "--x-display:none",
        "fill-opacity:0",
        "/* display:none */",
        "/*",
    )
    page = "".join(f"<p style='{style}'>seen</p>" for style in styles) + "<dialog open>seen</dialog>"
    async with serve(Pages({"/": (HTML, page.encode())})) as server:
        found = await fetch(tmp_path, url=f"{server.url}/")
    assert found.data["content"].split() == ["seen"] * (len(styles) + 1)


async def test_an_answer_that_is_too_long_is_not_kept(tmp_path: Path) -> None:
    async with serve(Pages({"/": (HTML, b"x" * (6 << 20))})) as server:
        found = await fetch(tmp_path, url=f"{server.url}/")
    assert (found.success, found.data) == (False, None)
    assert "longer than" in (found.error or "") or "more than" in (found.error or "")
