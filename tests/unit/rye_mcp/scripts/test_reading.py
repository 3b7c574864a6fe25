"""What scripts of other people say about their arguments: a table of the ways in which they say it."""

# ruff: noqa: E501 - scripts as people write them

from __future__ import annotations

from pathlib import PurePath
from typing import Any

import pytest

from rye_mcp.errors import RyeError
from rye_mcp.metadata import read_calling
from rye_mcp.scripts import calling_of, kind_of, read_help, read_script

ARGPARSE = """\
import argparse
KINDS = ["a", "b"]
p = argparse.ArgumentParser()
p.add_argument("src")
p.add_argument("rest", nargs="*", type=int)
p.add_argument("-o", "--out-file", required=True)
p.add_argument("-n", type=int)
p.add_argument("--kind", choices=KINDS)
p.add_argument("--no-cache", action="store_false")
p.add_argument("--color", action=argparse.BooleanOptionalAction)
p.add_argument("--names", nargs="+")
p.add_argument("-v", "--verbose", action="count")
p.add_argument("--version", action="version", version="1")
"""

SUBCOMMANDS = """\
import argparse
p = argparse.ArgumentParser()
p.add_argument("--root")
sub = p.add_subparsers()
b = sub.add_parser("build")
b.add_argument("--jobs", type=int)
c = sub.add_parser("clean")
c.add_argument("--all", action="store_true")
"""

TYPER = """\
import typer
from typing import Annotated, Optional
def main(name: str, count: int = 1, formal: bool = False, tag: Annotated[Optional[list[str]], typer.Option("--tag", "-t")] = None):
    "Say hello."
typer.run(main)
"""

CLICK_GROUP = """\
import click
@click.group()
def cli(): pass
@cli.command()
@click.option("--force", "-f", is_flag=True)
@click.argument("path")
def remove_all(force, path): pass
@cli.command("show")
def show(): pass
"""

CASES: dict[str, tuple[str, str, str | None, dict[str, str], list[str], list[str]]] = {
    "argparse": (
        "a.py",
        ARGPARSE,
        None,
        {
            "out_file": "--out-file=VALUE",
            "n": "-nVALUE",
            "kind": "--kind=VALUE",
            "no_cache": "--no-cache",
            "color": "--color/--no-color",
            "names": "--names VALUE...",
            "verbose": "--verbose...",
        },
        ["--", "src", "rest"],
        ["src", "out_file"],
    ),
    "a subcommand": ("a.py", SUBCOMMANDS, "build", {"jobs": "--jobs=VALUE"}, [], []),
    "typer": (
        "a.py",
        TYPER,
        None,
        {"count": "--count=VALUE", "formal": "--formal/--no-formal", "tag": "--tag=VALUE"},
        ["--", "name"],
        ["name"],
    ),
    "a group of click": ("a.py", CLICK_GROUP, "remove-all", {"force": "--force"}, ["--", "path"], ["path"]),
    "sys.argv": (
        "a.py",
        "import sys\nname = sys.argv[1]\nn = int(sys.argv[2]) if len(sys.argv) > 2 else 3\n",
        None,
        {},
        ["name ANY", "n ANY"],
        ["name"],
    ),
    "getopt": (
        "a.py",
        'import getopt, sys\ngetopt.getopt(sys.argv[1:], "hv", ["help", "out="])\n',
        None,
        {"out": "--out=VALUE", "v": "-v"},
        ["--", "args"],
        [],
    ),
    "optparse": (
        "a.py",
        'import optparse\np = optparse.OptionParser()\np.add_option("-q", "--quiet", action="store_true")\n',
        None,
        {"quiet": "--quiet"},
        ["--", "args"],
        [],
    ),
    "getopts": (
        "a.sh",
        "while getopts 'o:vh' x; do\ncase $x in\no) OUT=$OPTARG;;\nv) LOUD=1;;\nh) usage;;\nesac\ndone\n"
        'shift $((OPTIND-1))\nsrc=$1\nto="${2:-.}"\n',
        None,
        {"out": "-oVALUE", "loud": "-v"},
        ["--", "src", "to"],
        ["src"],
    ),
    "while case": (
        "a.sh",
        'while [ $# -gt 0 ]; do\n  case "$1" in\n    -n|--name) NAME="$2"; shift 2 ;;\n    --dry-run) DRY=1; shift ;;\n'
        '    --out=*) OUT="${1#*=}"; shift ;;\n    -h|--help) usage; exit ;;\n    *) FILES+=("$1"); shift ;;\n  esac\ndone\n',
        None,
        {"name": "--name ANY", "dry_run": "--dry-run", "out": "--out=VALUE"},
        ["files"],
        [],
    ),
    "places in bash": (
        "a.sh",
        "f() {\n  local x=$1\n}\nname=${1:?a name}\ncount=${2:-1}\n",
        None,
        {},
        ["name ANY", "count ANY"],
        ["name"],
    ),
    "parseArgs": (
        "a.mjs",
        "import { parseArgs } from 'node:util';\nconst options = { name: { type: 'string', short: 'n' }, tag: "
        "{ type: 'string', multiple: true }, all: { type: 'boolean' } };\nparseArgs({ options });\n",
        None,
        {"name": "--name=VALUE", "tag": "--tag=VALUE", "all": "--all"},
        [],
        [],
    ),
    "commander": (
        "a.mjs",
        "import { program } from 'commander';\nprogram.description('Copies.').argument('<from>').argument('[to...]')\n"
        ".option('-d, --dry-run', 'only say it').requiredOption('-n, --name <name>', 'a name')\n"
        ".option('--no-color').option('-p <port>');\n",
        None,
        {"dry_run": "--dry-run", "name": "--name=VALUE", "no_color": "--no-color", "p": "-pVALUE"},
        ["--", "from", "to"],
        ["from", "name"],
    ),
    "yargs": (
        "a.cjs",
        "const yargs = require('yargs');\nconst argv = yargs.option('size', { alias: 's', type: 'number', "
        "demandOption: true }).option('kind', { choices: ['a', 'b'] }).argv;\nconsole.log(argv._);\n",
        None,
        {"size": "--size=VALUE", "kind": "--kind=VALUE"},
        ["--", "args"],
        ["size"],
    ),
    "minimist": (
        "a.cjs",
        "const argv = require('minimist')(0);\nconst o = minimist(process.argv.slice(2), { boolean: ['loud'], "
        "alias: { n: 'name' } });\nconsole.log(o.loud, o.size, o._);\n",
        None,
        {"loud": "--loud", "size": "--size=VALUE"},
        ["--", "args"],
        [],
    ),
    "process.argv": (
        "a.cjs",
        "const [from, to = '.'] = process.argv.slice(2);\n",
        None,
        {},
        ["from ANY", "to ANY"],
        ["from"],
    ),
    "process.argv with the program and the script": (
        "a.ts",
        "const [, , who, where = '.']: string[] = process.argv;\n",
        None,
        {},
        ["who ANY", "where ANY"],
        ["who"],
    ),
    "process.argv under another name": (
        "a.cjs",
        "const argv = process.argv\nconst from = argv[2];\nconst size = Number(argv[3]);\n",
        None,
        {},
        ["from ANY", "size ANY"],
        ["from", "size"],
    ),
    "process.argv of which one place is passed over": (
        "a.cjs",
        "const [, to] = process.argv.slice(2);\n",
        None,
        {},
        ["arg1 ANY", "to ANY"],
        ["arg1", "to"],
    ),
    "process.argv with flags": (
        "a.cjs",
        "const a = process.argv.slice(2);\nfor (let i = 0; i < a.length; i++) switch (a[i]) {\ncase '-n':\n"
        "case '--name': name = a[++i]; break;\ncase '--loud': loud = true; break;\ndefault: rest.push(a[i]);\n}\n",
        None,
        {"name": "--name ANY", "loud": "--loud"},
        ["args"],
        [],
    ),
    "Getopt::Long": (
        "a.pl",
        "use Getopt::Long;\nGetOptions('name|n=s' => \\$n, 'size=i' => \\$s, 'tag=s@' => \\@t, 'v+' => \\$v, "
        "'color!' => \\$c) or die;\nprint @ARGV;\n",
        None,
        {
            "name": "--name=VALUE",
            "size": "--size=VALUE",
            "tag": "--tag=VALUE",
            "v": "--v...",
            "color": "--color/--no-color",
        },
        ["--", "args"],
        [],
    ),
    "OptionParser": (
        "a.rb",
        'OptionParser.new do |o|\n  o.on("-n", "--name NAME", "A name") { |x| }\n  o.on("--[no-]color") { |x| }\nend.parse!\n',
        None,
        {"name": "--name=VALUE", "color": "--color/--no-color"},
        [],
        [],
    ),
}


@pytest.mark.parametrize(
    ("name", "text", "command", "flags", "places", "required"), CASES.values(), ids=CASES
)
def test_a_script_is_read_as_it_would_read_its_arguments(
    name: str, text: str, command: str | None, flags: dict[str, str], places: list[str], required: list[str]
) -> None:
    path = PurePath(name)
    declared, _ = read_script(kind_of(path, text), text, path, command)
    config, schema = calling_of(declared, command)
    assert config.get("flags", {}) == flags
    assert config.get("positionals", []) == places
    assert schema.get("required", []) == required
    assert read_calling(config, schema)[1] == []


def test_types_choices_and_help_are_in_the_schema() -> None:
    declared, _ = read_script(kind_of(PurePath("a.py"), ARGPARSE), ARGPARSE, PurePath("a.py"), None)
    properties: dict[str, Any] = calling_of(declared, None)[1]["properties"]
    assert properties["n"] == {"type": "integer"}
    assert properties["kind"] == {"type": "string", "enum": ["a", "b"]}
    assert properties["rest"] == {"type": "array", "items": {"type": "integer"}}
    assert properties["color"]["type"] == "boolean"


def test_commands_of_a_program_are_named() -> None:
    path = PurePath("a.py")
    assert read_script(kind_of(path, SUBCOMMANDS), SUBCOMMANDS, path, None)[0].subcommands == (
        "build",
        "clean",
    )
    assert read_script(kind_of(path, CLICK_GROUP), CLICK_GROUP, path, None)[0].subcommands == (
        "remove-all",
        "show",
    )


KINDS = {
    "packages for uv": ("a.py", '# /// script\n# dependencies = ["x"]\n# ///\n', ".py", "uv_script_runtime"),
    "no packages": ("a.py", "# /// script\n# dependencies = []\n# ///\n", ".py", "python_script_runtime"),
    "a first line": ("tool", "#!/usr/bin/env python3.11\n", ".py", "python_script_runtime"),
    "options of env": ("tool", "#!/usr/bin/env -S node --no-warnings\n", ".js", "node_runtime"),
    "a module": ("a.js", "import fs from 'fs';\n", ".mjs", "node_runtime"),
    "another language": ("tool", "#!/usr/bin/awk -f\n", "", "binary_runtime"),
}


@pytest.mark.parametrize(("name", "text", "extension", "runtime"), KINDS.values(), ids=KINDS)
def test_a_runtime_is_chosen_by_the_extension_or_the_first_line(
    name: str, text: str, extension: str, runtime: str
) -> None:
    kind = kind_of(PurePath(name), text)
    assert (kind.extension, kind.executor_id.rpartition("/")[2]) == (extension, runtime)


def test_what_is_no_script_is_refused() -> None:
    with pytest.raises(RyeError) as caught:
        kind_of(PurePath("notes.txt"), "hello")
    assert caught.value.code == "not_runnable"


HELP = """\
usage: thing [options] FILE

options:
  -h, --help            show this
  -n, --name NAME       a name
  -q                    be quiet
      --size=<bytes>    how large
  -x FILE               leave out
      --dry-run
"""


def test_flags_are_read_from_a_help_text() -> None:
    config, schema = calling_of(read_help(HELP), None)
    flags = {
        "name": "--name=VALUE",
        "q": "-q",
        "size": "--size=VALUE",
        "x": "-xVALUE",
        "dry_run": "--dry-run",
    }
    assert config["flags"] == flags
    assert schema["properties"]["name"] == {"type": "string", "description": "a name"}


USAGES = {
    "argparse": (
        "usage: x.py [-h] [--top N] [--names NAMES [NAMES ...]] file [rest ...]\n\npositional arguments:\n"
        "  file        what to read\n  rest        more\n\noptions:\n  --top N     how many\n",
        ["file", "rest"],
        ["file"],
    ),
    "click": ("Usage: x.py [OPTIONS] SRC [DST]...\n\n  Copies.\n", ["src", "dst"], ["src"]),
    "brackets": ("Usage: node greet.js <name> [<times>] --loud\n", ["name", "times"], ["name"]),
    "GNU": (
        "Usage: x [OPTION]... SOURCE DEST\nCopy SOURCE to DEST.\n",
        ["source", "dest"],
        ["source", "dest"],
    ),
    "one or more": ("usage: t [-o OUT] paths [paths ...]\n\narguments:\n  paths\n", ["paths"], ["paths"]),
    "no usage": ("Arguments:\n  NAME  who\n", ["name"], ["name"]),
    "prose": ("usage: run this with care\n", [], []),
    "a traceback": ('Traceback (most recent call last):\n  File "x.py", line 1, in <module>\n', [], []),
}


@pytest.mark.parametrize(("text", "places", "required"), USAGES.values(), ids=USAGES)
def test_positionals_are_read_from_a_help_text(text: str, places: list[str], required: list[str]) -> None:
    config, schema = calling_of(read_help(text), None)
    assert config.get("positionals", []) == places
    assert schema.get("required", []) == required


def test_a_subcommand_is_described_by_its_own_help() -> None:
    code = '"""Keeps things."""\n' + SUBCOMMANDS.replace('"build"', '"build", help="Build it."')
    declared, _ = read_script(kind_of(PurePath("a.py"), code), code, PurePath("a.py"), "build")
    assert declared.description == "Build it."
    assert "options that stand before the subcommand are left out: --root" in declared.remarks


def test_a_list_that_a_script_collects_gives_its_name() -> None:
    code = (
        "const args = process.argv.slice(2);\nconst files = [];\nfor (let i = 0; i < args.length; i++) {\n"
        "  if (args[i] === '--all') { all = true; } else { files.push(args[i]); }\n}\n"
    )
    declared, _ = read_script(kind_of(PurePath("a.js"), code), code, PurePath("a.js"), None)
    assert [option.name for option in declared.options] == ["all", "files"]


def test_a_default_that_is_no_literal_shows_nothing_of_this_process() -> None:
    code = (
        "import argparse, os\np = argparse.ArgumentParser()\n"
        "p.add_argument('--dir', default=os.getcwd(), help='where (default %(default)s)')\n"
    )
    declared, _ = read_script(kind_of(PurePath("a.py"), code), code, PurePath("a.py"), None)
    assert declared.options[0].schema["description"] == "where (default …)"
