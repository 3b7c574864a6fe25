"""The documents are true where a machine can tell."""

import configparser
import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
MAP = ROOT / "docs/architecture.md"
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
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    named = {
        target
        for document in DOCUMENTS
        for target in re.findall(r"`make ([a-z-]+)", document.read_text(encoding="utf-8"))
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
        *(each for extra in project["project"]["optional-dependencies"].values() for each in extra),
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


@pytest.mark.parametrize(
    ("package", "page", "heading"),
    [
        ("lilux", "lilux", "## Modules"),
        ("lilux/_http", "lilux", ""),
        ("lilux/schemas", "lilux", ""),
        ("rye_mcp/bridge", "bridge", ""),
        ("rye_mcp/catalog", "search", "# The search index"),
        ("rye_mcp/cli", "command-line", "## Modules of the commands"),
        ("rye_mcp/executor", "execution", "## Modules of the executor"),
        *(
            (f"rye_mcp/executor/{part}", "execution", f"### `{part}`")
            for part in ("chain", "configuration", "environment", "job", "lock")
        ),
        ("rye_mcp/inside", "inside", "# Calls inside of calls"),
        ("rye_mcp/language", "search", "## Words"),
        ("rye_mcp/mcp_server", "mcp-server", "## Modules"),
        ("rye_mcp/metadata", "items", "## Metadata"),
        ("rye_mcp/primitives", "bridge", ""),
        ("rye_mcp/queries", "search", "## The query language"),
        ("rye_mcp/runs", "execution", "## Results, the run log and kept output"),
        ("rye_mcp/scripts", "command-line", "## Scripts"),
        ("rye_mcp/sharing", "sharing", "## Modules"),
        ("rye_mcp/spaces", "items", "## Spaces"),
        ("rye_mcp/trust", "trust", "## Modules"),
        ("rye_mcp/verbs", "command-line", "## Modules of the verbs"),
    ],
)
def test_the_page_of_a_package_names_each_module_of_it(package: str, page: str, heading: str) -> None:
    heading = heading or f"## `{package.replace('/', '.')}`"
    text = (ROOT / f"docs/architecture/{page}.md").read_text(encoding="utf-8")
    section = text.partition(f"{heading}\n")[2].partition("\n## ")[0]
    table = section.partition("\n| --- |")[2].partition("\n\n")[0]
    first = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `")]
    named = sorted(name for cell in first for name in re.findall(r"`(\w+)`", cell))
    places = (ROOT / "src" / package).iterdir()
    modules = {path.stem for path in places if path.suffix == ".py" or (path / "__init__.py").is_file()}
    assert named == sorted(modules - {"__init__"})


@pytest.mark.parametrize(("package", "contract"), [("rye_mcp", "orchestrator"), ("lilux", "microkernel")])
def test_the_map_shows_the_layers_that_are_checked(package: str, contract: str) -> None:
    rules = configparser.ConfigParser()
    rules.read(ROOT / ".importlinter", encoding="utf-8")
    layers = rules[f"importlinter:contract:{contract}"]["layers"]
    shown = MAP.read_text(encoding="utf-8").partition("\n## Layers\n")[2].partition(f"\n`{package}`, ")[2]
    assert shown.partition("```\n")[2].partition("\n```")[0] == re.sub(r"[()]", "", layers).strip()


def test_the_map_stays_a_map() -> None:
    text = MAP.read_text(encoding="utf-8")
    assert len(text.split()) <= 3000
    tree = text.partition("\n## Layout\n")[2].partition("```\n")[2].partition("\n```")[0]
    assert len(tree.splitlines()) <= 50
    for walk in ("Execute over MCP", "Sign"):
        steps = text.partition(f"\n## {walk}\n")[2].partition("\n## ")[0]
        numbers = [int(number) for number in re.findall(r"^\| (\d+) \|", steps, re.MULTILINE)]
        assert numbers == list(range(1, len(numbers) + 1))
        assert 0 < len(numbers) <= 25


def test_the_walks_of_the_map_name_modules_that_are_there() -> None:
    """A name without a dot is a package, or a module of the package that was named before it."""
    cells = re.findall(r"^\| \d+ \| (.*?) \|", MAP.read_text(encoding="utf-8"), re.MULTILINE)
    assert cells
    missing = []
    for cell in cells:
        package = ""
        for name in re.findall(r"`([\w.]+)`", cell):
            package = name.rpartition(".")[0] or package
            if not _is_there(name) and not _is_there(f"{package}.{name}"):
                missing.append(name)
    assert missing == []


WHERE = ROOT / "docs/architecture/where-to-change.md"


def test_the_page_of_places_names_files_that_have_the_names_beside_them() -> None:
    rows = re.findall(
        r"^\| [^|]+ \| ([^|]*`[^|]*) \|([^|]*)\|$", WHERE.read_text(encoding="utf-8"), re.MULTILINE
    )
    assert len(rows) > 30
    assert [problem for row in rows for problem in _missing_in(*row)] == []


def _missing_in(file: str, names: str) -> Iterator[str]:
    place = None
    for path in re.findall(r"`([^`]+)`", file):
        place = next((at for base in ("src/rye_mcp", "") if (at := ROOT / base / path).exists()), None)
        if place is None:
            yield path
    if place is not None and place.is_file():
        source = place.read_text(encoding="utf-8")
        for name in re.findall(r"`(\w+)`", names):
            if not re.search(rf"^ *(?:async )?(?:def|class) {name}\b|^{name}: ", source, re.MULTILINE):
                yield f"{path}: {name}"


def _is_there(module: str) -> bool:
    path = module.replace(".", "/")
    places = [ROOT / "src" / path, ROOT / "src/rye_mcp" / path]
    return any(place.is_dir() or place.with_suffix(".py").is_file() for place in places)
