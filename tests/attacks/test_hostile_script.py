"""Attack: a script that somebody adopts, or a file beside it, keeps its reader busy, or ends it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from rye_mcp.items import MAX_ITEM_BYTES
from rye_mcp.scripts.kinds import MAX_READ_CHARACTERS
from rye_mcp.verbs.adopt import AdoptRequest, Proposal, propose
from tests.attacks.test_deep_nesting import SLOW
from tests.trust_world import World, refused
from tests.verb_world import person


def adopted(world: World, name: str, content: str) -> Proposal:
    """What would be written for a script in a directory of a stranger's."""
    script = world.root / "given" / name
    script.parent.mkdir(exist_ok=True)
    script.write_text(content)
    return propose(AdoptRequest(script), person(world))


PACKAGES = {
    "brackets": b"[" * 100_000,
    "objects": b'{"a":' * 100_000,
    "a module, too large": b'{"type": "module", "x": "' + b"a" * (1 << 20) + b'"}',
    "a key twice": b'{"type": "module", "type": "module"}',
    "no UTF-8": b"\xff",
}


@pytest.mark.parametrize("content", PACKAGES.values(), ids=PACKAGES)
def test_a_package_json_that_cannot_be_read_makes_nothing_a_module(world: World, content: bytes) -> None:
    package = world.root / "given/package.json"
    package.parent.mkdir()
    package.write_bytes(content)
    proposal = adopted(world, "hi.js", "console.log(process.argv[2])\n")
    assert proposal.file.extension == ".js"
    assert proposal.remarks[0].startswith(f"{package} was not read, so this counts as no module: ")


@pytest.mark.parametrize(("source", "limit", "line"), SLOW.values(), ids=SLOW)
def test_python_that_keeps_the_parser_busy_is_refused_before_it_is_parsed(
    world: World, source: str, limit: str, line: int
) -> None:
    error = refused("invalid_item", lambda: adopted(world, "hi.py", source))
    assert limit in error.message


def test_python_that_goes_too_deep_is_refused(world: World) -> None:
    """Python reads the sum, and whoever looks at it piece by piece would go a level down for each."""
    deep = "import sys\nx = " + "'a' + " * 2000 + "'a'\nprint(sys.argv[1])\n"
    refused("invalid_item", lambda: adopted(world, "deep.py", deep))


def test_no_more_is_read_than_an_item_may_have(world: World) -> None:
    refused("too_large", lambda: adopted(world, "hi.sh", "#" * (MAX_ITEM_BYTES + 1)))


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_file_is_not_waited_for(world: World, make: object) -> None:
    place = Path(world.root / "hi.sh")
    assert callable(make)
    make(place)
    refused("read_failed", lambda: propose(AdoptRequest(place), person(world)))


def test_of_a_large_script_the_beginning_is_read(world: World) -> None:
    proposal = adopted(world, "hi.sh", "name=$1\n" + "echo $name\n" * 10_000 + "echo $2\n")
    assert proposal.parameters == ("name",)
    assert any("the first 65536 characters alone" in each for each in proposal.remarks)


UNCLOSED = {
    "functions": ("hi.sh", "f() {\n"),
    "calls of commander": ("hi.js", "require('commander');\n.option('-a'"),
    "lists": ("hi.pl", "=a\n"),
}


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "piece"), UNCLOSED.values(), ids=UNCLOSED)
def test_of_a_script_that_never_closes_a_bracket_the_beginning_is_read(
    world: World, name: str, piece: str
) -> None:
    """Each of them would be looked for to the end of the file."""
    first, _, again = piece.rpartition("\n.") if piece.startswith("require") else ("", "", piece)
    content = first + again * ((MAX_ITEM_BYTES - 2000) // len(again))
    proposal = adopted(world, name, content)
    assert any("the first 65536 characters alone" in each for each in proposal.remarks)


def test_no_import_becomes_an_option_of_the_command_that_is_proposed(world: World) -> None:
    """`npm install -g ms` installs for everybody."""
    content = 'import "-g";\nimport "--prefix";\nimport "ms";\n'
    (remark,) = (each for each in adopted(world, "hi.mjs", content).remarks if "npm install" in each)
    assert "npm install ms in the project" in remark
    assert " -" not in remark


NAMES = (
    b"soft\xc2\xadhyphen",
    b"next\xc2\x85line",
    b"no\xffUTF-8",
    b"a'b\\c\nd\xe2\x80\xae.py",
    "caf\u00e9".encode(),
)


@pytest.mark.parametrize("name", NAMES)
def test_the_command_that_is_proposed_names_this_very_file(name: bytes) -> None:
    """Beside a name that cannot be shown there may be one of the bytes that its escapes look like."""
    command = AdoptRequest(Path(os.fsdecode(name))).command
    assert command.isprintable()
    word = command.removeprefix("rye adopt ")
    done = subprocess.run(["bash", "-c", f"printf %s {word}"], capture_output=True, check=True)
    assert done.stdout == name


UNENDING = {
    "lines": ("hi.sh", "#!/bin/bash\n" + "\n" * MAX_READ_CHARACTERS),
    "a word": ("hi.js", 'import "minimist";\nprocess.argv;' + "a" * MAX_READ_CHARACTERS),
}


@pytest.mark.parametrize(("name", "content"), UNENDING.values(), ids=UNENDING)
def test_a_script_is_not_looked_through_from_each_of_its_characters(
    world: World, name: str, content: str
) -> None:
    """That would take minutes: what is looked for could begin anywhere, and ends nowhere."""
    assert not adopted(world, name, content).declared.options


@pytest.mark.thorough
def test_a_block_of_packages_is_looked_for_at_the_beginning(world: World) -> None:
    """Here one could begin in each of many lines."""
    refused("invalid_item", lambda: adopted(world, "hi.py", "# /// script\n" * 80_000))
