"""A project whose page has something to show in every view: real tools and runs, a key, a question."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rye_mcp.runs.questions import Questions
from tests.people import SCRIPTS, Person, Publication
from tests.ui_world import ended, tool

__all__ = ["House", "furnished", "going_on"]

SIZES = '''\
"""How many words each text has."""

__version__ = "1.2.0"
__executor_id__ = "rye/core/runtimes/python_runtime"
PERMISSIONS = {}
CONFIG_SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
EXAMPLES = [
    {"description": "Count two words.", "parameters": {"text": "two words"}, "expect": {"data": {"words": 2}}}
]


def main(text):
    return {"words": len(text.split())}
'''

REPORT = '''\
"""A report of several texts, made by counting each of them."""

__version__ = "0.4.0"
__executor_id__ = "rye/core/runtimes/python_runtime"
PERMISSIONS = {"calls": ["texts/count_words"]}
LIMITS = {"calls": 100}
CONFIG_SCHEMA = {"type": "object", "properties": {"texts": {"type": "array", "items": {"type": "string"}}}}

from rye import call


def main(texts):
    return [call("texts/count_words", text=text)["words"] for text in texts]
'''

BUILD = r"""for name in parser lexer planner executor cache index; do
  echo "compiling src/$name.c"; sleep 0.1
done
echo "linking"; echo "running 214 tests"
for i in $(seq 1 214); do printf 'test %03d ok\n' $i; sleep 0.02; done
sleep 600"""

LOGS = 'for i in $(seq 1 60000); do echo "10:00:00 request $i took $((i % 97)) ms"; done'


@dataclass(frozen=True)
class House:
    """A person, their project, and the run of each tool that ran last."""

    person: Person
    project: Path
    runs: dict[str, str]


def furnished(place: Path) -> House:
    """Alice proposes a key in a project that Bob has cloned, and Bob has used it for a while."""
    publication = Publication.make(place)
    project = publication.clone(place)
    person = Person("bob", place / "bob")
    person.rye("init", "--no-propose", cwd=place)
    for name, source in {"count_words": SIZES, "report": REPORT}.items():
        path = project / f".ai/tools/texts/{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
        person.sign(f"texts/{name}", project)
    for name, code, about in (
        ("build", BUILD, "Builds the program, and runs its tests."),
        ("logs", LOGS, "Prints the log of the web server."),
        ("deploy", "echo 'cannot reach the host' >&2; exit 3", "Puts the page onto the server."),
    ):
        person.sign(tool(project, name, code, description=about), project)
    person.rye("lock", "update", "texts/count_words", cwd=project)
    person.rye("run", "demo/logs", cwd=project)
    person.rye("run", "demo/deploy", cwd=project, code=1)
    texts = json.dumps({"texts": ["one two three", "to be or not to be", "rye"]})
    for _ in range(3):
        person.rye("run", "texts/count_words", "--text", "one two three", cwd=project)
    person.rye("run", "texts/report", "--params", texts, cwd=project)
    person.rye("run", "demo/hello", cwd=project, code=1)  # nobody trusts its signer yet
    question = (
        "Run texts/report?\nsigned by: bob\npermissions: may only compute, and call texts/count_words\n"
        'parameters:\n  texts = ["to be or not to be"]'
    )
    Questions(person.state / "rye").ask("mark", "execute", "texts/report", question, "rye run texts/report")
    rows = person.rye("log", "--json", cwd=project).json["runs"]
    return House(person, project, {row["item_id"]: row["run_id"] for row in reversed(rows)})


@contextmanager
def going_on(house: House, item_id: str = "demo/build") -> Iterator[str]:
    """A run that is going on for as long as the block; its id."""
    command, silent = [str(SCRIPTS / "rye"), "run", item_id], subprocess.DEVNULL
    process = subprocess.Popen(
        command, cwd=house.project, env=house.person.environment, stdout=silent, stderr=silent
    )
    asked = ("log", "--item", item_id, "--status", "running", "--json")
    with ended(process):
        while not (found := house.person.rye(*asked, cwd=house.project).json["runs"]):
            assert process.poll() is None
        yield str(found[0]["run_id"])
