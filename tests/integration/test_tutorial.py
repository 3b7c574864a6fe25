"""`docs/tutorial.md` tells the whole story, and a promise on a page that is not kept is noticed.

What it says that its commands print is compared with all other pages, in `test_documents_run.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.document_pages import ROOT, Shell, Step, blocks_of, pattern, steps_of

PAGE = ROOT / "docs" / "tutorial.md"


def test_the_page_tells_the_whole_story() -> None:
    """Each refusal and its end, with the exit code: what the walk is for cannot be dropped from it."""
    told = "".join(step.commands + (step.promised or "") for step in steps_of(PAGE))
    story = """rye init
        unsigned
        exit code 1
        rye sign
        exit code 0
        verified
        rye run
        Hello, Ada
        rye install
        rye search
        sed -i
        content_changed
        exit code 1
        sed -i
        exit code 0
        USER_SPACE
        git clone
        untrusted_key
        exit code 1
        rye trust review
        --accept
        verified
        exit code 0
        revoked_key
        exit code 1"""
    position = 0
    for word in map(str.strip, story.splitlines()):
        assert word in told[position:], word
        position = told.index(word, position)


def test_a_promise_that_is_not_kept_is_noticed() -> None:
    assert re.fullmatch(pattern("a … b\n…\nend\n"), "a x b\nmore\nlines\nend\n")
    assert re.fullmatch(pattern("a … b\n…\nend\n"), "a x b\nend\n")
    for printed in ("a x b\n", "a x b\nend\nmore\n", "a x\nend\n", "A x b\nend\n", "a x\n b\nend\n"):
        assert not re.fullmatch(pattern("a … b\n…\nend\n"), printed)


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    opened = Shell(tmp_path)
    yield opened
    opened.close()


@pytest.mark.parametrize(
    "step",
    [
        Step(1, "echo something else\n", "what was promised\n"),
        Step(1, "echo more\necho and more\n", "more\n"),
        Step(1, "false\n"),
        Step(1, "ls no-such-file\ntrue\n"),
        Step(1, "printf 'no line break'\nfalse\n"),
    ],
    ids=lambda step: step.commands.split("\n")[0],
)
def test_a_step_that_goes_wrong_is_noticed(shell: Shell, step: Step) -> None:
    with pytest.raises(AssertionError):
        shell.do(step)


def test_a_shell_goes_on_where_the_last_block_ended(shell: Shell) -> None:
    shell.do(Step(1, "mkdir deep && cd deep\nname=Ada\n"))
    shell.do(Step(2, "greeting\n", path="a/file"))
    shell.do(Step(3, 'echo "$name: $(cat a/file)"\n', "Ada: greeting\n"))
    shell.do(Step(4, "false || echo 'but that is meant'\n"))


def test_blocks_and_what_stands_before_them_are_read(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "`a/b.py`:\n\n```python\nx\n```\n\n<!-- not run: no such machine here -->\n```sh\nboom\n```\n\n"
        "```console\n$ echo a \\\n  b\na b\n$ true\n```\n\nwords\n\n```text\nno promise\n```\n",
        encoding="utf-8",
    )
    named, excused, console, loose = blocks_of(page)
    assert (named.path, named.line, excused.excuse) == ("a/b.py", 3, "no such machine here")
    assert (console.follows, loose.follows) == (True, False)
    assert [(step.commands, step.promised, step.path) for step in steps_of(page)] == [
        ("x\n", None, "a/b.py"),
        ("echo a \\\n  b\n", "a b\n", None),
        ("true\n", "", None),
    ]
