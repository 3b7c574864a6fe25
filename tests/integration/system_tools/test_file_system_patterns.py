"""What `rye/file-system/grep` looks for means the same to ripgrep and to Python."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.file_system_world import TOOLS

COMPARE = """
import json, os, sys
sys.path.insert(0, sys.argv[1])
import candidates
from answers import Refusal
from candidates import Selection, matching_paths
from expressions import Expression
from files import Files
from places import Project
from trees import deadline_in

asked, by_ripgrep, answers = json.load(sys.stdin), candidates.by_ripgrep, []
asks = [0]

def counted(*arguments):
    found = by_ripgrep(*arguments)
    asks[0] += found is not None
    return found

with Project(sys.argv[2]) as project, project.find(".") as place:
    root = place.open_directory()
    for pattern, ignore_case in asked:
        pair = []
        for way in (counted, lambda *arguments: None):
            candidates.by_ripgrep = way
            try:
                expression = Expression(pattern, literal=False, ignore_case=ignore_case)
                selection = Selection(project, place, globs=[], hidden=False, gitignore=True)
                deadline = deadline_in(20)
                found = matching_paths(root, expression, selection, deadline, 10_000, expression.prepare)
                kept = [path for path in found if expression.is_in(Files(root).read(path))]
                pair.append(kept)
            except Refusal as refusal:
                pair.append(refusal.error)
        answers.append(pair)
json.dump([answers, asks[0]], sys.stdout)
"""

PATTERNS = [

    "é", "É", ".", "^.$", "^..$", "^\\w+$", "^\\W+$", "\\d", "\\D\\d", "\\s", "^\\s*$", "\\S\\s\\S",
    "[^a]$", "[^\\w]", "[\\w-]+\\.", "\\bfoo\\b", "\\Boo", "foo|bar", "(foo|bar){2}", "(?:ab)+?c",
    "a{2,3}", "x*", "$", "^", "^$", "\\Afoo\\Z", "(?i)straße", "(?i:FOO)b", "k", "[\\x41-\\x5a]{3}",
    "\\\\", "\\u00e9", "\\$\\{", "a.c", "(?s)a.c", "(?x) f o o # oo", "(?=foo)f", "(o)\\1", "(?<!f)oo",
    "(?>fo+)b", "[]a]", "[^]a]", "\\t", "[\\t ]x", "\\x0b", "<b>", "\\<", "a&&b", "~", "#", "[\\n]",
    "[^\\n]x", "[\\D]x", "\ufeff", "[\u0430-\u044f]+", "\U0001f600", "(?i)\U0001f600|ÀB", "\\.py$", "-e",
    "--",
]  # fmt: skip


@pytest.mark.thorough
@pytest.mark.skipif(shutil.which("rg") is None, reason="ripgrep is not installed")
def test_ripgrep_and_python_agree_on_every_kind_of_pattern(tmp_path: Path) -> None:
    """Many patterns over many texts, in one process; most of them are such as ripgrep can look for."""
    chance = random.Random(8)  # noqa: S311 - the same in every run
    pieces = [

        "foo", "bar", "foob", "é", "É", "e\u0301", "ß", "STRASSE", "straße", "K", "\u212a", "\u017f",
        "s", "٣", "7", "²", "Ⅷ", " ", "\t", "\u00a0", "\u2003", "\x0b", "\x1c", "\x85", "a", "aa",
        "aaa", "abc", "a.c", "a\rc", "-", "_", ".py", "\\", "${", "<b>", "\u0430", "\u044f", "\U0001f600",
        "À",
        "àb", "\ufeff", "x", "]", "a&&b", "~", "#", "--", "-e",
    ]  # fmt: skip
    for number in range(150):
        lines = ["".join(chance.choices(pieces, k=chance.randrange(4))) for _ in range(chance.randrange(4))]
        content = chance.choice(["\n", "\n", "\r\n"]).join(lines).encode()
        content += chance.choice([b"", b"\n", b"\n\n", b"\xff", b"\xe9foo\n", b"a\xffc\n", b"\xc3\n"])
        (tmp_path / f"{number:03}").write_bytes(content)
    asked = [(pattern, ignore_case) for pattern in PATTERNS for ignore_case in (False, True)]
    found = subprocess.run(
        [sys.executable, "-B", "-c", COMPARE, TOOLS / "lib", tmp_path],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    answers, asked_ripgrep = json.loads(found.stdout)
    different = {
        (pattern, ignore_case): set(by_ripgrep) ^ set(by_python)
        for (pattern, ignore_case), (by_ripgrep, by_python) in zip(asked, answers, strict=True)
        if by_ripgrep != by_python
    }
    assert different == {}
    assert asked_ripgrep > len(asked) * 0.8
    assert (
        sum(1 for pair in answers if isinstance(pair[1], list) and 0 < len(pair[1]) < 150) > len(asked) * 0.6
    )


RULES = """
import json, os, random, subprocess, sys
sys.path.insert(0, sys.argv[1])
import candidates
from candidates import Selection, matching_paths
from expressions import Expression
from places import Project
from trees import deadline_in

asked = json.load(sys.stdin)
chance, by_ripgrep, different = random.Random(3), candidates.by_ripgrep, []
expression = Expression("wanted", literal=True, ignore_case=False)

def grown(path, depth):
    os.mkdir(path)
    for name in chance.sample(asked["names"], chance.randrange(2, 6)):
        below = os.path.join(path, name)
        if depth < 3 and chance.random() < 0.5:
            grown(below, depth + 1)
        else:
            open(below, "w").write("wanted")
    if chance.random() < 0.5:
        lines = chance.choices(asked["rules"], k=chance.randrange(1, 5))
        open(os.path.join(path, ".gitignore"), "w").write("\\n".join(lines))

def of_git(root):
    subprocess.run(["git", "init", "--quiet", root], check=True)
    command = ["git", "-C", root, "ls-files", "-z", "--others", "--exclude-standard"]
    listed = os.fsdecode(subprocess.run(command, check=True, capture_output=True).stdout).split("\\0")
    return sorted(path for path in listed if path and not path.endswith(".gitignore"))

def of_tool(root, at, globs, way):
    candidates.by_ripgrep = way
    with Project(root) as project, project.find(at, follow=False) as place:
        descriptor = place.open_directory()
        selection = Selection(project, place, globs=globs, hidden=True, gitignore=True)
        found = matching_paths(descriptor, expression, selection, deadline_in(20), 10_000, expression.prepare)
        os.close(descriptor)
        return found

for number in range(asked["trees"]):
    root = os.path.join(sys.argv[2], str(number))
    grown(root, 0)
    directories = [os.path.relpath(at, root) for at, _, _ in os.walk(root)]
    for at, globs in ((".", []), (chance.choice(directories), chance.choice(asked["globs"]))):
        by_python = of_tool(root, at, globs, lambda *arguments: None)
        if by_python != of_tool(root, at, globs, by_ripgrep):
            different.append([number, at, globs, "ripgrep"])
        if at == "." and not globs and sorted(by_python) != of_git(root):
            different.append([number, at, globs, "git"])
json.dump(different, sys.stdout)
"""

NAMES = ["a", "b", "foo", "bar.py", "x.log", "foo.txt", ".hid", "[x]", "a b", "#c", "!d", "é"]
RULES_IN_USE = [
    "a", "b/", "/a", "*.log", "!*.log", "foo", "!foo", "/foo/", "foo/bar.py", "**/foo", "foo/**", "a/**/b",
    "*",
    "!*/", "?", "[ab]", "[!a]", "[^b].py", "\\#c",
    "\\!d", "#c", "a b", "a\\ b", "foo.*", "!bar.py", "a/*",
    "!a/b", "/*", "**", "x.log ", "**/", "foo//bar", "\\[x\\]", "[[]x]", "é", "*/b", "b*",
    ".*", "[x", "f?o", "***",
]  # fmt: skip
GLOBS = [[], ["*.py"], ["!foo"], ["a/**"], ["[ab]", "!*.log"], ["!a/"], ["f*", "b*"]]


@pytest.mark.thorough
@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_rules_of_gitignore_mean_what_they_mean_to_git_and_to_ripgrep(tmp_path: Path) -> None:
    asked = {"names": NAMES, "rules": RULES_IN_USE, "globs": GLOBS, "trees": 25}
    found = subprocess.run(
        [sys.executable, "-B", "-c", RULES, TOOLS / "lib", tmp_path],
        input=json.dumps(asked),
        env={**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    assert json.loads(found.stdout) == []
