"""`rye search`, as people and scripts use it: as real processes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.people import Person
from tests.verb_world import DIRECTIVE, tool


def about(description: str) -> bytes:
    return tool().replace(b'"""Says hello."""', f"__tool_description__ = {description!r}".encode())


IN_THE_PROJECT = ["--space", "project"]
"""The system space has words of its own, and more of them with every tool."""

MANY = 200
"""From how many files on a bar shows how far the index is."""


@pytest.fixture
def leo(tmp_path: Path) -> Person:
    person = Person("leo", tmp_path / "leo")
    (person.place / "project/.ai/tools").mkdir(parents=True)
    person.rye("keys", "generate", cwd=person.place / "project")
    return person


@pytest.fixture
def project(leo: Person) -> Path:
    """Two tools that are signed, and one that is not."""
    project = leo.place / "project"
    for item_id, description in (
        ("media/convertToMP3", "Convert a video to a sound file."),
        ("media/thumbnail", "Make a small picture of a video."),
    ):
        write(project, item_id, about(description))
    leo.rye("sign", "*", cwd=project)
    write(project, "media/stranger", about("Steal a video."))
    return project


def write(project: Path, item_id: str, content: bytes) -> Path:
    path = project / f".ai/tools/{item_id}.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def found(leo: Person, project: Path, *arguments: str) -> list[dict[str, Any]]:
    results: list[dict[str, Any]] = leo.rye("search", *arguments, "--json", cwd=project).json["results"]
    return results


def ids(leo: Person, project: Path, *arguments: str) -> list[str]:
    return [each["id"] for each in found(leo, project, *arguments)]


@pytest.mark.thorough
def test_a_sentence_needs_no_quotes(leo: Person, project: Path) -> None:
    words = ["turn", "this", "video", "into", "an", "mp3", "file,", "please!"]
    assert ids(leo, project, *words)[0] == "media/convertToMP3"
    assert ids(leo, project, *words) == ids(leo, project, " ".join(words))


def test_the_table_says_what_runs_and_why_not(leo: Person, project: Path) -> None:
    shown = leo.rye("search", "video", *IN_THE_PROJECT, cwd=project)
    rows = {line.split()[0]: line for line in shown.out.splitlines()}
    assert rows["ITEM"].split() == ["ITEM", "SCORE", "SPACE", "SIGNER", "RUNS", "ABOUT"]
    assert re.search(r"by you \([0-9a-f]{16}\)  yes", rows["media/convertToMP3"])
    assert rows["media/convertToMP3"].endswith("Convert a video to a sound file.")
    assert rows["media/stranger"].split()[2:] == ["project", "-", "no:", "unsigned"]
    assert "Steal" not in shown.shown


@pytest.mark.thorough
def test_a_terminal_gets_a_table_and_a_pipe_plain_text(leo: Person, project: Path) -> None:
    assert "\x1b[1mITEM" in leo.types([], "search", "video", cwd=project).out
    assert "\x1b" not in leo.rye("search", "video", cwd=project).shown


@pytest.mark.thorough
def test_a_script_gets_what_an_agent_gets(leo: Person, project: Path) -> None:
    answer = leo.rye("search", "video", "--json", *IN_THE_PROJECT, cwd=project).json
    assert set(answer) == {"results", "total", "offset", "limit", "query"}
    assert (answer["total"], answer["query"]) == (3, "video")
    [converter] = found(leo, project, "mp3", *IN_THE_PROJECT)
    assert set(converter) == {"id", "type", "space", "description", "score", "signer", "runnable"}
    [detailed] = found(leo, project, "mp3", "--detail", *IN_THE_PROJECT)
    assert detailed["detail"]["preview"].startswith("__tool_description__")


@pytest.mark.thorough
def test_open_shows_the_first_result(leo: Person, project: Path) -> None:
    shown = leo.rye("search", "mp3", "--open", cwd=project).out
    assert "item        media/convertToMP3" in shown
    assert "Convert a video" in shown
    assert leo.rye("search", "mp3", "--open", "--json", cwd=project).json["item_id"] == "media/convertToMP3"
    assert leo.refused("item_not_found", "search", "nothingofthekind", "--open", cwd=project)


@pytest.mark.first_case
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["video", "--limit", "1", "--sort", "name"], ["media/convertToMP3"]),
        (["video", "--limit", "1", "--offset", "1", "--sort", "name"], ["media/thumbnail"]),
        (["video", "--limit", "1", "--offset", "2", "--sort", "name"], ["media/stranger"]),
        (["video", "NOT", "sound", "NOT", "steal"], ["media/thumbnail"]),
        (["(video", "AND", "picture)"], ["media/thumbnail"]),
        (["picture", "--field", "description"], ["media/thumbnail"]),
        (["picture", "--field", "name"], []),
        (["", "--scope", "tool.media.convert*"], ["media/convertToMP3"]),
        (["thumbnail", "--space", "system"], []),
        (["pictrue", "--fuzzy", "2"], ["media/thumbnail"]),
        (["picture", "--filter", "name=thumbnail"], ["media/thumbnail"]),
        (["picture", "--filter", "name=other"], []),
        (["video", "--type", "knowledge"], []),
    ],
    ids=" ".join,
)
def test_options_are_those_of_the_verb(
    leo: Person, project: Path, arguments: list[str], expected: list[str]
) -> None:
    space = [] if "--space" in arguments else IN_THE_PROJECT
    assert ids(leo, project, *arguments, *space) == expected


@pytest.mark.thorough
def test_other_types_are_found_by_their_type(leo: Person, project: Path) -> None:
    path = leo.user_space / "directives/greet.md"
    path.parent.mkdir(parents=True)
    path.write_bytes(DIRECTIVE)
    leo.rye("sign", "greet", "--type", "directive", "--space", "user", cwd=project)
    assert ids(leo, project, "greet", "--type", "directive") == ["greet"]
    assert ids(leo, project, "greet", "--scope", "directive.gr*", "--space", "user") == ["greet"]


def test_what_changes_is_found_by_the_next_command(leo: Person, project: Path) -> None:
    assert ids(leo, project, "zebra") == []
    path = write(project, "media/zebra", about("Paint a zebra."))
    leo.rye("sign", "media/zebra", cwd=project)
    assert ids(leo, project, "zebra") == ["media/zebra"]
    path.unlink()
    assert ids(leo, project, "zebra") == []


def test_nothing_found_says_what_to_try(leo: Person, project: Path) -> None:
    shown = leo.rye("search", "thumbnial", cwd=project)
    assert shown.out.splitlines() == ["nothing was found", "did you mean: thumbnail"]
    assert leo.rye("search", "thumbnial", "--json", cwd=project).json["did_you_mean"] == ["thumbnail"]
    assert "search for other words" in leo.rye("search", "qqqqqqqqqqqq", cwd=project).out


@pytest.mark.thorough
def test_more_results_than_are_shown_are_said(leo: Person, project: Path) -> None:
    shown = leo.rye("search", "video", "--limit", "2", *IN_THE_PROJECT, cwd=project).out
    assert shown.splitlines()[-1] == "1 to 2 of 3; next page: --offset 2"
    assert "--offset" not in leo.rye("search", "video", *IN_THE_PROJECT, cwd=project).out


def test_a_wrong_query_says_where(leo: Person, project: Path) -> None:
    shown = leo.rye("search", "video", "AND", cwd=project, code=1)
    assert shown.err.splitlines()[0].endswith("found the end in column 10: video AND>>><<<")
    assert "hint:" in shown.err
    assert leo.refused("invalid_query", "search", "(video AND", cwd=project)["column"] == 11
    leo.refused("invalid_query", "search", "--scope", "tools", cwd=project)
    leo.refused("invalid_query", "search", "--field", "nmae", cwd=project)


@pytest.mark.first_case
@pytest.mark.parametrize(
    "arguments",
    [
        *(["--limit", "0"], ["--limit", "101"], ["--offset", "-1"], ["--sort", "size"], ["--fuzzy", "3"]),
        *(["--filter", "tags"], ["--space", "all"]),
    ],
    ids=" ".join,
)
def test_wrong_use_ends_with_2(leo: Person, project: Path, arguments: list[str]) -> None:
    leo.rye("search", "video", *arguments, cwd=project, code=2)


def test_the_index_is_in_the_cache_and_nowhere_else(leo: Person, project: Path) -> None:
    before = {path.relative_to(project) for path in project.rglob("*")}
    cache = leo.place / "cache"
    leo.rye("search", "video", cwd=project, XDG_CACHE_HOME=str(cache))
    assert {path.relative_to(project) for path in project.rglob("*")} == before
    assert any((cache / "rye").iterdir())


@pytest.mark.thorough
def test_a_cache_that_depends_on_the_directory_is_not_used(leo: Person, project: Path) -> None:
    shown = leo.rye("search", "video", cwd=project, XDG_CACHE_HOME="cache")
    assert "media/convertToMP3" in shown.out
    assert shown.err.startswith("rye: warning: the search index is kept in memory")
    assert not (project / "cache").exists()
    assert leo.rye("search", "video", "--json", cwd=project, XDG_CACHE_HOME="cache").err == ""


@pytest.mark.thorough
def test_a_first_index_of_many_items_shows_how_far_it_is_in_a_terminal(leo: Person, project: Path) -> None:
    for number in range(MANY):
        write(project, f"many/t{number}", tool())
    assert "Indexing" in leo.types([], "search", "hello", cwd=project).out
    assert "Indexing" not in leo.types([], "search", "hello", cwd=project).out


def test_without_a_project_the_other_spaces_are_searched(leo: Person, tmp_path: Path) -> None:
    assert all(each["space"] == "system" for each in found(leo, tmp_path, "subprocess"))
    leo.refused("no_project", "search", "x", "--space", "project", cwd=tmp_path)


def test_an_offset_behind_all_results_says_how_many_there_are(leo: Person, project: Path) -> None:
    shown = leo.rye("search", "picture", "--offset", "7", *IN_THE_PROJECT, cwd=project)
    assert shown.out.splitlines() == ["there are 1, and none behind --offset 7"]
