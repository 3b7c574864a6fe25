"""What the surroundings say: options, the environment, the working directory; and what is made of it."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rye_mcp.app import App, Settings
from rye_mcp.errors import RyeError
from rye_mcp.items import SYSTEM_MANIFEST_KIND
from rye_mcp.trust.scope import SignerKind
from tests.file_helpers import run_python

pytestmark = pytest.mark.both_loops


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for directory in ("home/.ai", "work/demo/.ai", "work/demo/deep/er", "bare"):
        (tmp_path / directory).mkdir(parents=True)
    return tmp_path


def found(place: Path, working_directory: str, project: Path | None = None, **environment: str) -> Settings:
    return Settings.find(
        project=project,
        state=place / "state",
        environment={"USER_SPACE": str(place / "home"), **environment},
        working_directory=place / working_directory,
    )


@pytest.mark.parametrize("start", ["work/demo", "work/demo/deep/er"])
def test_the_nearest_directory_with_a_space_is_the_project(place: Path, start: str) -> None:
    assert found(place, start).project == place / "work/demo"


def test_the_nearest_of_two_projects_counts(place: Path) -> None:
    (place / "work/demo/deep/.ai").mkdir()
    assert found(place, "work/demo/deep/er").project == place / "work/demo/deep"


def test_no_project_is_no_error_until_somebody_needs_one(place: Path) -> None:
    settings = found(place, "bare")
    assert settings.project is None
    with pytest.raises(RyeError, match="found none") as caught:
        settings.spaces().require_project()
    assert (caught.value.code, caught.value.hint) == ("no_project", "rye init")


def test_the_directory_of_the_user_is_no_project_and_says_so(place: Path) -> None:
    settings = found(place, "home")
    assert settings.project is None
    assert settings.no_project is not None
    assert "user space" in settings.no_project.message
    assert settings.spaces().no_project is settings.no_project


def test_what_holds_a_system_space_is_passed_over(place: Path) -> None:
    inner = place / "work/demo/deep"
    (inner / ".ai").mkdir()
    (inner / ".ai/manifest.json").write_text(json.dumps({"kind": SYSTEM_MANIFEST_KIND}), encoding="utf-8")
    assert found(place, "work/demo/deep/er").project == place / "work/demo"


def test_an_option_wins_over_the_environment_and_that_over_the_directory(place: Path) -> None:
    other, bare = place / "work", place / "bare"
    assert found(place, "work/demo", RYE_PROJECT_PATH=str(other)).project == other
    assert found(place, "work/demo", bare, RYE_PROJECT_PATH=str(other)).project == bare


@pytest.mark.parametrize("named", ["nowhere", "home"])
def test_a_project_that_is_named_has_to_be_one(place: Path, named: str) -> None:
    with pytest.raises(RyeError, match="expected") as caught:
        found(place, "work/demo", place / named)
    assert caught.value.code == "no_project"


def test_a_directory_that_was_removed_is_no_project(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = place / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    settings = Settings.find(state=place, environment={"USER_SPACE": str(place / "home")})
    assert settings.no_project is not None
    assert "removed" in settings.no_project.message


@pytest.mark.parametrize(
    ("text", "locked"),
    [
        ("", False),
        ("0", False),
        ("false", False),
        ("No", False),
        ("1", True),
        ("true", True),
        ("flase", True),
    ],
)
def test_locked_mode_is_off_only_where_it_is_plainly_off(place: Path, text: str, locked: bool) -> None:
    assert found(place, "bare", RYE_LOCKED=text).locked is locked


def test_a_relative_user_space_is_refused(place: Path) -> None:
    with pytest.raises(RyeError, match="absolute") as caught:
        found(place, "work/demo", USER_SPACE="home").spaces()
    assert caught.value.code == "unsafe_path"


def test_an_agent_asks_unless_somebody_says_otherwise(place: Path) -> None:
    app = App.open(found(place, "work/demo"))
    assert not app.context().is_person
    assert app.context(SignerKind.PERSON).is_person
    assert app.spaces.require_project().root == place / "work/demo/.ai"


@pytest.mark.parametrize(("variable", "expected"), [("", "home/.cache/rye"), ("elsewhere", "elsewhere/rye")])
def test_the_index_is_kept_where_users_keep_what_can_be_made_again(
    place: Path, monkeypatch: pytest.MonkeyPatch, variable: str, expected: str
) -> None:
    monkeypatch.setenv("HOME", str(place / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(place / variable) if variable else "")
    assert found(place, "work/demo").cache == place / expected


def test_a_cache_relative_to_the_working_directory_is_not_used(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "cache")
    monkeypatch.chdir(place / "bare")
    settings = found(place, "work/demo")
    assert settings.cache is None
    with App.open(settings).catalog() as catalog:
        catalog.refresh()
    assert list((place / "bare").iterdir()) == []


def test_a_catalog_is_kept_in_the_cache_and_not_opened_before_it_is_asked_for(place: Path) -> None:
    app = App.open(Settings.find(project=place / "work/demo", cache=place / "cache", state=place / "state"))
    assert not (place / "cache").exists()
    with app.catalog() as catalog:
        catalog.refresh()
    assert list((place / "cache/search").iterdir())


@pytest.mark.anyio
async def test_a_catalog_that_is_kept_is_the_same_in_every_thread_until_all_is_closed(place: Path) -> None:
    app = App.open(Settings.find(project=place / "work/demo", cache=place / "cache", state=place / "state"))
    with ThreadPoolExecutor(4) as threads:
        opened = {id(catalog): catalog for catalog in threads.map(lambda _: app.kept_catalog(), range(16))}
        (catalog,) = opened.values()
        assert app._catalogs == [catalog]
        for _ in threads.map(lambda _: catalog.refresh(), range(4)):
            assert catalog.notices == ()
    await app.close()
    assert not list((place / "cache/search").glob("*-wal"))
    assert app.kept_catalog() is not catalog
    await app.close()


WITHOUT_A_SEARCH = """
import sys
from pathlib import Path
import rye_mcp.mcp_server
from rye_mcp.app import App, Settings
from rye_mcp.language import meaning
from rye_mcp.items import SpaceName
root, opened = Path(sys.argv[1]), []
sys.addaudithook(lambda event, given: event == "open" and opened.append(str(given[0])))
elsewhere = root.parents[1] / "elsewhere"
app = App.open(Settings.find(project=root, cache=elsewhere / "cache", state=elsewhere / "state"))
app.spaces.list(SpaceName.SYSTEM)
print(str(meaning.FILE) in opened)
app.catalog().close()
print(str(meaning.FILE) in opened)
"""


def test_the_word_table_is_read_by_the_first_search_and_not_before(place: Path) -> None:
    assert run_python(WITHOUT_A_SEARCH, place / "work/demo").split() == ["False", "True"]
