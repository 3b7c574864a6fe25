"""The official conformance suite for servers, against `rye-mcp --http`, in both revisions that it knows.

What it expects to find at a server are signed items of a project (`fixtures`). What it expects and cannot be
is listed with its reason in `baseline.yaml`; whatever fails besides that fails here, and so does whatever is
listed and passes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.conformance.fixtures import DIRECTIVES, KNOWLEDGE, TOOLS
from tests.http_world import HttpServer, http_server
from tests.node_world import *  # noqa: F403
from tests.node_world import NodePrograms
from tests.people import Person

pytestmark = pytest.mark.timeout(300)  # the first one may have to install it

HERE = Path(__file__).parent

NEWEST = "@modelcontextprotocol/conformance/dist/index.js"
RELEASED = "conformance-released/dist/index.js"

RUNS = [
    pytest.param(NEWEST, "2025-11-25", "baseline.yaml", 33, id="newest, 2025-11-25"),
    pytest.param(NEWEST, "2026-07-28", "baseline.yaml", 40, id="newest, 2026-07-28"),
    pytest.param(RELEASED, "2025-11-25", "baseline-released.yaml", 32, id="released, 2025-11-25"),
]
"""Suite, revision, what is expected to fail, and how many scenarios there are."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    """A server with all fixtures; one for all runs."""
    place = tmp_path_factory.mktemp("conformance")
    person, project = Person("ada", place / "ada"), place / "project"
    project.mkdir()
    person.begin(project)
    _write(project / ".ai/tools", TOOLS, "py")
    _write(project / ".ai/directives", DIRECTIVES, "md")
    _write(project / ".ai/knowledge", KNOWLEDGE, "md")
    for item_type in ("tool", "directive", "knowledge"):
        person.rye("sign", "*", "--type", item_type, cwd=project)
    exposed = ("--expose", "test_*", "--expose", "json_schema_2020_12_tool")
    with http_server(person, project, "--no-auth", *exposed, token=None) as listening:
        yield listening


def _write(place: Path, items: Mapping[str, str], extension: str) -> None:
    place.mkdir(parents=True, exist_ok=True)
    for name, content in items.items():
        (place / f"{name}.{extension}").write_text(content)


@pytest.mark.parametrize(("suite", "revision", "baseline", "scenarios"), RUNS)
def test_nothing_fails_that_is_not_listed(
    node: NodePrograms,
    server: HttpServer,
    tmp_path: Path,
    suite: str,
    revision: str,
    baseline: str,
    scenarios: int,
) -> None:
    done = node.run(
        suite,
        "server",
        *("--url", server.url),
        *("--suite", "all"),
        *("--spec-version", revision),
        *("--expected-failures", str(HERE / baseline)),
        *("--output-dir", str(tmp_path / "results")),
        env={"HOME": str(tmp_path)},
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    results = sorted((tmp_path / "results").glob("**/checks.json"))
    assert len(results) == scenarios
    passed = [check for file in results for check in json.loads(file.read_text()) if _is_passed(check)]
    assert len(passed) >= len(results) // 2


def _is_passed(check: Mapping[str, str]) -> bool:
    return check["status"] == "SUCCESS"


def test_the_lock_file_names_no_registry() -> None:
    lock = json.loads((HERE / "package-lock.json").read_text())
    assert [name for name, facts in lock["packages"].items() if "resolved" in facts] == []
    assert all("integrity" in facts for name, facts in lock["packages"].items() if name)


@pytest.mark.parametrize("baseline", ["baseline.yaml", "baseline-released.yaml"])
def test_whatever_is_expected_to_fail_has_a_reason(baseline: str) -> None:
    entries = [line for line in (HERE / baseline).read_text().splitlines() if line.lstrip().startswith("-")]
    assert entries
    assert [entry for entry in entries if not entry.partition("  # ")[2].strip()] == []
