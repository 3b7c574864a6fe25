"""Which directories of this machine calls of other servers may work in."""

from __future__ import annotations

from pathlib import Path

import pytest

from rye_mcp.app import App, Settings
from rye_mcp.configuration import shared_directories
from rye_mcp.errors import RyeError


def app_with(root: Path, text: str | None) -> App:
    home = root / "home"
    config = home / ".ai/config/rye.yaml"
    if text is not None:
        config.parent.mkdir(parents=True)
        config.write_text(text)
    settings = Settings.find(
        user_directory=home,
        state=root / "state",
        environment={"HOME": str(home)},
        working_directory=Path("/"),
    )
    return App.open(settings)


def test_they_are_what_the_configuration_of_the_user_says(tmp_path: Path) -> None:
    app = app_with(tmp_path, "shared:\n  data: /srv/data\n  a-b_1: /x\n")
    assert shared_directories(app) == {"data": Path("/srv/data"), "a-b_1": Path("/x")}


@pytest.mark.parametrize("text", [None, "confirm: [sign]\n"])
def test_there_are_none_unless_it_says_so(tmp_path: Path, text: str | None) -> None:
    assert shared_directories(app_with(tmp_path, text)) == {}


@pytest.mark.parametrize(
    "said",
    ["[data]", "{data: data}", "{data: 1}", "{../x: /srv}", "{A: /srv}", "/srv/data", "{data: ~/data}"],
)
def test_what_is_no_name_with_an_absolute_path_is_refused(tmp_path: Path, said: str) -> None:
    with pytest.raises(RyeError) as caught:
        shared_directories(app_with(tmp_path, f"shared: {said}\n"))
    assert caught.value.code == "invalid_item"
    assert "shared: {data: /srv/data}" in str(caught.value.hint)


def test_a_file_that_others_can_write_names_none(tmp_path: Path) -> None:
    app = app_with(tmp_path, "shared:\n  data: /srv/data\n")
    (tmp_path / "home/.ai/config/rye.yaml").chmod(0o666)
    with pytest.raises(RyeError) as caught:
        shared_directories(app)
    assert caught.value.code == "unsafe_permissions"
