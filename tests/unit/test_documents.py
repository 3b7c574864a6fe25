"""The documents are true where a machine can tell."""

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted(
    [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("examples/**/*.md"),
        *ROOT.glob("tests/**/*.md"),
    ]
)

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6} +(.+?) *$", re.MULTILINE)
FUNCTION = re.compile(r"^(?:async )?def (\w+)\(", re.MULTILINE)
CODE_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def links(document: Path) -> Iterator[str]:
    """Yield each link of a document that points into this repository."""
    text = CODE_BLOCK.sub("", document.read_text(encoding="utf-8"))
    yield from (target for target in LINK.findall(text) if not re.match(r"[a-z]+:", target))


def anchors(document: Path) -> set[str]:
    """Return the names that a document's headings, or a module's functions, can be linked by."""
    if document.suffix == ".py":
        return set(FUNCTION.findall(document.read_text(encoding="utf-8")))
    text = CODE_BLOCK.sub("", document.read_text(encoding="utf-8"))
    return {
        re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower()).replace(" ", "-")
        for heading in HEADING.findall(text)
    }


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_somewhere(document: Path) -> None:
    broken = []
    for link in links(document):
        path, _, anchor = link.partition("#")
        target = (document.parent / path).resolve() if path else document
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert not broken


def test_every_page_is_in_the_index() -> None:
    index = ROOT / "docs" / "README.md"
    named = {(index.parent / link).resolve() for link in links(index)}
    pages = {page for page in ROOT.glob("docs/**/*.md") if page.parent.name != "adr"}
    assert sorted(str(page.relative_to(ROOT)) for page in pages - named - {index}) == []


def test_the_readme_shows_users_one_command_and_contributors_two_and_stays_short() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    commands = [
        line.split("#")[0].strip()
        for language, block in CODE_BLOCK.findall(readme)
        if language in {"sh", "bash", "console"}
        for line in block.splitlines()
        if line.strip()
    ]
    assert commands[0].startswith("uv tool install ")
    at = commands.index("make demo")
    assert commands[at : at + 2] == ["make demo", "make test"]
    assert len(readme.splitlines()) < 120
    assert "Linux" in "".join(readme.splitlines(keepends=True)[:8])


def test_every_make_target_that_a_document_names_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z]+):", makefile, re.MULTILINE))
    named = {
        target
        for document in DOCUMENTS
        for target in re.findall(r"`make ([a-z]+)", document.read_text(encoding="utf-8"))
    }
    assert named
    assert named <= targets


def test_the_page_with_figures_has_one_place_for_the_benchmark_to_write_to() -> None:
    page = (ROOT / "docs/performance.md").read_text(encoding="utf-8")
    assert page.count("<!-- benchmark:process -->") == 1
    assert page.index("<!-- benchmark:process -->") < page.index("<!-- /benchmark:process -->")


def load_toml(path: str) -> dict[str, Any]:
    return tomllib.loads((ROOT / path).read_text(encoding="utf-8"))


def test_every_dependency_has_its_reason_on_the_page() -> None:
    project = load_toml("pyproject.toml")
    requirements = [
        *project["build-system"]["requires"],
        *project["project"]["dependencies"],
        *project["dependency-groups"]["dev"],
    ]
    crates = [
        name
        for kind in ("dependencies", "dev-dependencies")
        for name in load_toml("crates/lilux-proc/Cargo.toml").get(kind, {})
    ]
    page = (ROOT / "docs/dependencies.md").read_text(encoding="utf-8")
    explained = set(re.findall(r"\[([\w.@/-]+)\]\(http", page))
    named = {Requirement(requirement).name for requirement in requirements} | set(crates)
    assert explained == named | set(_pinned_for_node())


def _pinned_for_node() -> Iterator[str]:
    """Packages of npm; an alias is the package that it stands for."""
    pins = json.loads((ROOT / "tests/conformance/package.json").read_text(encoding="utf-8"))
    for name, version in (pins["dependencies"] | pins["optionalDependencies"]).items():
        yield version.removeprefix("npm:").rpartition("@")[0] if version.startswith("npm:") else name


def test_the_page_of_the_server_names_each_module_of_it() -> None:
    page = (ROOT / "docs/architecture/mcp-server.md").read_text(encoding="utf-8")
    table = page.partition("## Modules")[2].partition("\n## ")[0]
    first = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `")]
    named = {name for cell in first for name in re.findall(r"`(\w+)`", cell)}
    modules = (ROOT / "src/rye_mcp/mcp_server").glob("*.py")
    assert named == {path.stem for path in modules} - {"__init__"}
