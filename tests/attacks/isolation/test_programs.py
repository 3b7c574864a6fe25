"""Which programs run confined: each does a little of its real work, unconfined, in walls and in a cell.

Some need more than walls can give, such as sockets of the machine or shared memory. A program that is not
installed is skipped by its name.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from typing import Any

import pytest

from tests.attacks.isolation.world import World

pytestmark = pytest.mark.thorough

PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/go/bin"


@dataclass(frozen=True)
class Program:
    """A line of shell that prints something, in a directory that it may write."""

    script: str
    prints: str
    needs_cell: str = ""
    """Whose runs need more than walls: root's (`R`), those of others (`U`)."""


PROGRAMS = {
    "sh": Program("for each in 1 2 3; do printf $each; done", "123"),
    "bash": Program("bash -c 'diff <(seq 3) <(seq 3) && echo same'", "same"),
    "awk": Program("seq 4 | awk '{ sum += $1 } END { print sum }'", "10"),
    "sed": Program("echo one > a; sed -i s/one/two/ a; cat a", "two"),
    "grep": Program("mkdir -p d; echo needle > d/a; grep -r needle d", "d/a:needle"),
    "sort": Program("seq 200000 | sort -S 1M -R | sort -S 1M -n | tail -1", "200000"),
    "find": Program("mkdir -p d/e; touch d/e/f; find d -type f -exec echo {} +", "d/e/f"),
    "xargs": Program("seq 8 | xargs -P 4 -n 1 sh -c 'echo $0' | wc -l | tr -d ' '", "8"),
    "tar": Program("mkdir -p d; echo x > d/a; tar czf d.tgz d; tar xzOf d.tgz d/a", "x"),
    "zip": Program("echo x > a; zip -q a.zip a; unzip -p a.zip a", "x"),
    "xz": Program("echo x | xz | xz -d", "x"),
    "diff": Program("echo a > a; echo b > b; diff a b | tail -1", "> b"),
    "patch": Program("echo a > a; printf '1c1\\n< a\\n---\\n> b\\n' | patch -s a; cat a", "b"),
    "flock": Program("flock lock echo held", "held"),
    "mkfifo": Program("mkfifo f; echo through > f & cat f", "through"),
    "timeout": Program("timeout 0.01 sleep 60; echo $?", "124"),
    "script": Program("script -qec 'test -t 0 && echo terminal' /dev/null", "terminal", needs_cell="RU"),
    "bc": Program("echo '2 ^ 10' | bc", "1024"),
    "jq": Program("echo '{\"a\": 1}' | jq -c .a", "1"),
    "sqlite3": Program("sqlite3 a.db 'create table t(a); insert into t values(7); select a from t'", "7"),
    "rg": Program("mkdir -p d; echo needle > d/a; rg -l needle d", "d/a"),
    "curl": Program("echo x > a; curl -s file://$PWD/a", "x"),
    "wget": Program("wget -q -t 1 http://127.0.0.1:9/ ; echo $?", "4"),
    "openssl": Program(
        "openssl genrsa 1024 2> /dev/null | openssl rsa -noout -check 2> /dev/null", "RSA key ok"
    ),
    "gzip": Program("echo x | gzip -9 | gzip -d", "x"),
    "git": Program(
        "git init -q r && cd r && echo x > a && git add a && "
        "git -c user.name=a -c user.email=a@b commit -qm subject && git log --format=%s",
        "subject",
    ),
    "make": Program("printf 'all: a b\\na b:\\n\\t@touch $@\\n' > Makefile; make -s -j 4; echo a b", "a b"),
    "gcc": Program(
        "echo 'int puts(const char *); int main(void) { puts(\"built\"); }' > a.c; gcc a.c && ./a.out",
        "built",
    ),
    "perl": Program("perl -e 'my $p = fork // die; exit 3 unless $p; wait; print $? >> 8'", "3"),
    "ruby": Program("ruby -e 'puts [1, 2].map { |x| Thread.new { x * 2 } }.sum(&:value)'", "6"),
    "python3": Program(
        "python3 -c 'import ssl, sqlite3, tempfile; print(tempfile.TemporaryFile().write(b\"x\"))'", "1"
    ),
    "python3 threads": Program(
        "python3 -c 'from concurrent.futures import *; print(sum(ThreadPoolExecutor(4).map(int, \"1234\")))'",
        "10",
    ),
    "python3 subprocess": Program(
        "python3 -c 'import subprocess; print(subprocess.getoutput(\"echo x\"))'", "x"
    ),
    "python3 asyncio": Program("python3 -c 'import asyncio; print(asyncio.run(asyncio.sleep(0, 5)))'", "5"),
    "python3 loopback": Program(
        'python3 -c \'import socket as s; a = s.create_server(("127.0.0.1", 0)); '
        's.create_connection(a.getsockname()); print("met")\'',
        "met",
        needs_cell="RU",
    ),
    "python3 multiprocessing": Program(
        "python3 -c 'import multiprocessing as m; print(sum(m.Pool(2).map(abs, [-1, -2])))'",
        "3",
        needs_cell="RU",
    ),
    "node": Program('node -e \'require("fs").promises.writeFile("a", "x").then(() => console.log(1))\'', "1"),
    "node workers": Program(
        'node -e \'const w = require("worker_threads"); '
        'new w.Worker("require(`worker_threads`).parentPort.postMessage(4)", {eval: true})'
        '.on("message", m => console.log(m))\'',
        "4",
    ),
    "node interfaces": Program(
        "node -e 'console.log(typeof require(\"os\").networkInterfaces())'", "object", needs_cell="RU"
    ),
    "npm": Program('echo \'{"scripts": {"say": "echo said"}}\' > package.json; npm run -s say', "said"),
    "java": Program(
        "echo 'class A { public static void main(String[] a) { System.out.println(42); } }' > A.java; "
        "java A.java",
        "42",
        needs_cell="R",
    ),
    "go": Program("go env GOOS", "linux"),
    "gpg": Program(
        "gpg -q --batch --passphrase '' --quick-gen-key a@b.example 2> /dev/null; "
        "gpg -q --list-keys --with-colons 2> /dev/null | grep -c ^pub",
        "1",
        needs_cell="RU",
    ),
    "tmux": Program(
        "tmux -S sock new -d 'sleep 60' && tmux -S sock ls | wc -l | tr -d ' '", "1", needs_cell="RU"
    ),
    "ssh-agent": Program("ssh-agent sh -c 'test -S $SSH_AUTH_SOCK && echo there'", "there", needs_cell="RU"),
    "vim": Program("echo a > a; vim -u NONE -es -c 's/a/b/' -c wq a; cat a", "b"),
}


def outcome(world: World, name: str, tier: str) -> dict[str, Any]:
    """What comes of a program for this user, with a directory of its own."""
    world.fill()
    place = world.root / "project/work"
    home = world.root / ("home" if tier == "cell" else "project/home")
    for directory in (place, home):
        directory.mkdir(exist_ok=True)
        os.chown(directory, world.uid, world.uid)
    policy = world.policy(f"{tier} none") if tier != "off" else None
    variables = f"HOME={home} PATH={PATH} LC_ALL=C.UTF-8"
    if tier != "cell":
        variables += f" TMPDIR={home}"
    script = f"export {variables}; cd {place}; {PROGRAMS[name].script}"
    return world.run(["/bin/sh", "-c", script], policy)


@pytest.mark.parametrize("tier", ["off", "walls", "cell"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_runs_confined_or_needs_a_cell(world: World, name: str, tier: str) -> None:
    program = name.partition(" ")[0]
    if shutil.which(program, path=PATH) is None:
        pytest.skip(f"{program} is not installed")
    answer = outcome(world, name, tier)
    if tier == "walls" and world.column in PROGRAMS[name].needs_cell:
        assert answer["stdout"].strip() != PROGRAMS[name].prints, (
            "it needs no cell: say so in docs/permissions.md"
        )
    else:
        assert answer["stdout"].strip() == PROGRAMS[name].prints, answer


def test_the_table_is_long() -> None:
    assert len(PROGRAMS) >= 40
