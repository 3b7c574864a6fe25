"""Tools that call tools: what they get, what is refused to them, and what the log says of it."""

from __future__ import annotations

import os
import re
from functools import partial

import anyio
import pytest
from anyio import to_thread

from tests.inside_world import DOOR, Programs, execute, program
from tests.mcp_world import Workshop, workshop

__all__ = ["workshop"]

CALLS_ECHO = "from rye import call\ndef main(**given):\n    return call('demo/echo', given)"


@pytest.fixture
def programs(workshop: Workshop) -> Programs:
    return Programs(workshop)


def test_a_program_gets_the_data_of_what_it_calls(programs: Programs) -> None:
    programs.add("demo/program", CALLS_ECHO, calls=["demo/echo"])
    assert programs.run("demo/program", name="Ada")["data"] == {"name": "Ada"}


async def test_over_mcp_it_is_the_same(programs: Programs) -> None:
    programs.add("demo/program", CALLS_ECHO, calls=["demo/*"])
    async with programs.workshop.served("auto") as client:
        assert (await execute(client, "demo/program", name="Ada"))["data"] == {"name": "Ada"}


def test_the_log_has_a_row_for_each_call_with_its_parent(programs: Programs) -> None:
    programs.add("demo/program", CALLS_ECHO, calls=["demo/echo"])
    run_id = programs.run("demo/program")["run_id"]
    rows = {row["item_id"]: row for row in programs.log()}
    assert rows["demo/echo"]["parent"] == run_id
    assert rows["demo/program"]["parent"] is None
    assert rows["demo/echo"]["caller"] == "person"


def test_what_the_file_does_not_name_is_refused_and_logged(programs: Programs) -> None:
    programs.add("demo/other", "def main():\n    return 1")
    programs.add("demo/program", CALLS_OTHER, calls=["demo/echo", "others/*"])
    assert programs.run("demo/program")["data"] == "call_not_allowed"
    [refused] = [row for row in programs.log() if row["item_id"] == "demo/other"]
    assert (refused["code"], refused["exit"]["kind"]) == ("call_not_allowed", "refused")
    assert refused["parent"] is not None


CALLS_OTHER = """
from rye import CallError, call
def main():
    try:
        return call("demo/other")
    except CallError as error:
        return error.code
"""


def test_the_log_shows_calls_below_the_program(programs: Programs) -> None:
    code = "from rye import call\ndef main():\n    return [call('demo/inner'), call('demo/echo')]"
    programs.add(
        "demo/inner", "from rye import call\ndef main():\n    return call('demo/echo')", calls=["demo/echo"]
    )
    programs.add("demo/outer", code, calls=["demo/*"])
    programs.run("demo/outer")
    programs.run("demo/echo")
    shown = programs.workshop.person.rye("log", "--tree", cwd=programs.workshop.project).out
    items = [line[49 : line.index("success")].rstrip() for line in shown.splitlines()[1:]]
    assert items == ["demo/echo", "demo/outer", "  demo/inner", "    demo/echo", "  demo/echo"]


def nested(programs: Programs) -> None:
    """A program that calls another one, and a tool that only reads."""
    calls_echo = "from rye import call\ndef main():\n    return call('demo/echo')"
    programs.add("demo/inner", calls_echo, calls=["demo/echo", "demo/gone"])
    programs.add("demo/reads", "def main():\n    return 1", project="read")
    code = "from rye import call\ndef main():\n    return [call('demo/inner'), call('demo/reads')]"
    programs.add("demo/outer", code, calls=["demo/inner", "demo/reads", "others/*", "demo/echo"])


def test_a_run_is_shown_with_the_tree_of_its_calls(programs: Programs) -> None:
    nested(programs)
    run_id = programs.run("demo/outer")["run_id"]
    rye, project = programs.workshop.person.rye, programs.workshop.project
    shown = rye("log", "show", run_id, cwd=project).out
    drawn = [line[12:].partition(",")[0].rstrip() for line in shown.splitlines() if "─ " in line]
    assert drawn == ["├─ demo/inner  success", "│  └─ demo/echo  success", "└─ demo/reads  success"]
    calls = rye("log", "show", "--json", run_id, cwd=project).json["calls"]
    assert [each["item_id"] for each in calls] == ["demo/inner", "demo/echo", "demo/reads"]
    assert calls[0]["parent"] == run_id


def test_explain_draws_what_a_program_may_call(programs: Programs) -> None:
    nested(programs)
    rye, project = programs.workshop.person.rye, programs.workshop.project
    shown = rye("explain", "demo/outer", cwd=project).out
    drawn = [line[13:] for line in shown.splitlines() if "─ " in line]
    assert [line.partition(":")[0] for line in drawn] == [
        "├─ demo/echo",
        "├─ demo/inner",
        "│  ├─ demo/echo",
        "│  └─ demo/gone",
        "├─ demo/reads",
        "└─ others/*",
    ]
    assert drawn[3].endswith(": item_not_found")
    assert drawn[4].endswith(": may read this project; nothing else")
    svg = rye("explain", "--svg", "demo/outer", cwd=project).out
    rows = re.findall(r'<text x="(\d+)"[^>]*>([^<]*)', svg)
    inner = next(x for x, text in rows if text.startswith("demo/inner"))
    assert [x for x, text in rows if text.startswith("demo/gone")] == [str(int(inner) + 26)]
    assert "-.->|may call|" in rye("explain", "--mermaid", "demo/outer", cwd=project).out
    found = rye("explain", "--json", "demo/outer", cwd=project).json["calls"]
    assert [each["item_id"] for each in found] == ["demo/echo", "demo/inner", "demo/reads", "others/*"]
    assert [each["state"] for each in found[1]["calls"]] == ["as above", "item_not_found"]


def test_signing_says_what_the_tools_that_it_calls_may_do_beyond_it(programs: Programs) -> None:
    for item_id, more in {"demo/reads": {"project": "read"}, "demo/writes": {"project": "write"}}.items():
        programs.add(item_id, "def main():\n    return 1", **more)
    calls = ["demo/echo", "demo/reads", "demo/writes"]
    programs.workshop.write("demo/program", program(CALLS_ECHO, calls=calls, project="read"))
    answer = programs.workshop.person.rye("sign", "demo/program", cwd=programs.workshop.project)
    told = (
        "demo/program calls tools that may do more than itself: demo/writes may read and write this project"
    )
    assert told in " ".join(answer.shown.split())


def test_signing_warns_of_calls_that_lead_nowhere(programs: Programs) -> None:
    programs.workshop.write("demo/typo", program(CALLS_ECHO, calls=["demo/ehco", "demo/echo", "other/*"]))
    answer = programs.workshop.person.rye("sign", "demo/typo", cwd=programs.workshop.project)
    assert "demo/typo calls demo/ehco, which is in no space" in answer.shown
    assert "demo/echo," not in answer.shown


def test_a_tool_without_calls_has_no_descriptor(programs: Programs) -> None:
    programs.add(
        "demo/plain", "import os\ndef main():\n    return [os.environ.get('RYE_CALL_FD'), can()]\n" + CAN
    )
    assert programs.run("demo/plain")["data"] == [None, False]


CAN = """
def can():
    try:
        os.fstat(5)
    except OSError:
        return False
    return True
"""


def test_what_it_calls_is_checked_as_always(programs: Programs) -> None:
    code = "from rye import *\ndef main():\n" + "    try:\n        call('demo/echo')\n"
    code += "    except CallError as error:\n        return error.code"
    programs.add("demo/program", code, calls=["demo/echo"])
    path = programs.workshop.project / ".ai/tools/demo/echo.py"
    path.write_text(path.read_text() + "\n# changed")
    assert programs.run("demo/program")["data"] == "content_changed"


async def test_a_failing_call_shows_the_line_of_the_program(programs: Programs) -> None:
    programs.add("demo/fails", "def main():\n    raise ValueError('no')")
    code = "from rye import call\ndef main():\n    return call('demo/fails')"
    programs.add("demo/program", code, calls=["demo/fails"])
    async with programs.workshop.served("auto") as client:
        stderr = (await execute(client, "demo/program"))["stderr"]
    assert "return call('demo/fails')" in stderr
    assert "rye.CallError: tool_failed" in stderr
    assert "lib/python/calls" not in stderr


def test_programs_call_in_threads_and_in_tasks(programs: Programs) -> None:
    threads = """
from concurrent.futures import ThreadPoolExecutor
from rye import call
def main():
    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(lambda n: call("demo/echo", n=n)["n"], range(8)))
"""
    tasks = """
from asyncio import gather
from rye.aio import call
async def main():
    return [each["n"] for each in await gather(*(call("demo/echo", n=n) for n in range(8)))]
"""
    for name, code in {"threads": threads, "tasks": tasks}.items():
        programs.add(f"demo/{name}", code, calls=["demo/echo"])
        assert programs.run(f"demo/{name}")["data"] == [*range(8)]


def test_it_finds_and_describes_only_what_it_may_call(programs: Programs) -> None:
    programs.add("demo/other", "def main():\n    return 1")
    code = """
from rye import CallError, describe, search
def main():
    found = [each["id"] for each in search("does what a test needs")]
    try:
        return [found, describe("demo/echo")["description"], describe("demo/other")]
    except CallError as error:
        return [found, error.code]
"""
    programs.add("demo/program", code, calls=["demo/echo"])
    assert programs.run("demo/program")["data"] == [["demo/echo"], "call_not_allowed"]


def test_calls_that_were_sent_are_answered_on_a_half_closed_socket(programs: Programs) -> None:
    code = (
        DOOR
        + """
def main():
    asked = [{"id": n, "call": "demo/echo", "parameters": {"n": n}} for n in (1, 2)]
    asked = [json.dumps(each).encode() + b"\\n" for each in asked]
    return sorted([each["id"], each["result"]["data"]["n"]] for each in said(*asked))
"""
    )
    programs.add("demo/program", code, calls=["demo/echo"])
    assert programs.run("demo/program")["data"] == [[1, 1], [2, 2]]


def test_the_number_of_calls_has_a_limit(programs: Programs) -> None:
    code = """
from rye import CallError, call
def main():
    done = 0
    try:
        while True:
            call("demo/echo")
            done += 1
    except CallError as error:
        return [done, error.code]
"""
    programs.add("demo/program", code, calls=["demo/echo"], limit=3)
    assert programs.run("demo/program")["data"] == [3, "too_many_calls"]


def test_a_program_that_calls_itself_ends_at_the_deepest_level(programs: Programs) -> None:
    code = """
from rye import CallError, call
def main(level=1):
    try:
        return call("demo/program", level=level + 1)
    except CallError as error:
        return [level, error.code]
"""
    programs.add("demo/program", code, calls=["demo/program"])
    assert programs.run("demo/program")["data"] == [9, "calls_too_deep"]


WAITS = """
import signal
def main(pipe):
    with open(pipe, "w") as stream:
        stream.write("started")
        stream.flush()
        signal.pause()
"""
CALLS_WAITS = "from rye import call\ndef main(pipe):\n    return call('demo/waits', pipe=pipe)"


@pytest.fixture
def waiting(programs: Programs) -> Programs:
    """With `demo/program`, which calls `demo/waits`, which holds a pipe open for as long as it runs."""
    programs.add("demo/waits", WAITS, project="write")
    programs.add("demo/program", CALLS_WAITS, calls=["demo/waits"])
    programs.workshop.pipe()
    return programs


def test_calls_end_with_the_time_of_the_program(waiting: Programs) -> None:
    pipe = waiting.workshop.project / "pipe"
    with os.fdopen(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)) as held:
        assert waiting.run("demo/program", "--timeout", "2", code=1, pipe=str(pipe))["code"] == "timeout"
        os.set_blocking(held.fileno(), True)
        assert held.read() in {"", "started"}  # to its end: nobody holds it any more
    rows = {row["item_id"]: row["code"] for row in waiting.log()}
    assert rows["demo/program"] == "timeout"
    assert rows.get("demo/waits", "cancelled") in {"cancelled", "timeout"}


async def test_cancelling_a_program_ends_what_it_has_called(waiting: Programs) -> None:
    pipe = waiting.workshop.project / "pipe"
    async with waiting.workshop.served("auto") as client:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(execute, client, "demo/program", pipe=str(pipe)))
            stream = await to_thread.run_sync(pipe.open)
            assert await to_thread.run_sync(stream.read, 7) == "started"
            tasks.cancel_scope.cancel()
        with anyio.fail_after(60):
            assert await to_thread.run_sync(stream.read, abandon_on_cancel=True) == ""
        stream.close()
