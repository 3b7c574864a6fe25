"""The four strategies that find an interpreter. The names of these tests are the specification's."""

from __future__ import annotations

import doctest
import os
import stat
from pathlib import Path
from typing import Any

import pytest

import lilux.runtime.interpreters
import lilux.runtime.version_managers
from lilux.runtime.env_resolver import EnvResolver
from lilux.runtime.interpreters import Question, Surroundings
from lilux.runtime.version_managers import MANAGERS, VersionManager, is_version


def put(path: Path, *, mode: int = 0o755) -> Path:
    """A file standing where an interpreter would be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=mode)
    return path


def found(project: Path | None, interpreter: dict[str, Any], **env: str) -> str | None:
    """What the variable holds."""
    config = {"interpreter": {"var": "FOUND", **interpreter}}
    base = {"PATH": "/nowhere", **env}
    return EnvResolver(project).resolve(config, base_env=base).get("FOUND")


@pytest.mark.parametrize("module", [lilux.runtime.interpreters, lilux.runtime.version_managers])
def test_the_public_names_are_those_listed(module: Any) -> None:
    own = {name for name, item in vars(module).items() if getattr(item, "__module__", "") == module.__name__}
    assert {name for name in own if not name.startswith("_")} - {"Manager"} == set(module.__all__) - {
        "MANAGERS"
    }


# --- venv_python ------------------------------------------------------------------


@pytest.mark.parametrize("candidate", ["bin/python", "Scripts/python.exe", "bin/python3"])
def test_venv_python_checks_each_place_where_a_venv_keeps_its_python(tmp_path: Path, candidate: str) -> None:
    python = put(tmp_path / ".venv" / candidate)
    assert found(tmp_path, {"type": "venv_python", "venv_path": ".venv"}) == str(python)
    assert found(tmp_path, {"type": "venv_python"}) == str(python)


def test_venv_python_takes_the_first_candidate_that_is_there(tmp_path: Path) -> None:
    for name in ("bin/python3", "Scripts/python.exe", "bin/python"):
        python = put(tmp_path / ".venv" / name)
        assert found(tmp_path, {"type": "venv_python"}) == str(python)


def test_an_interpreter_is_there_when_the_file_exists(tmp_path: Path) -> None:
    python = put(tmp_path / ".venv/bin/python", mode=0o644)
    assert found(tmp_path, {"type": "venv_python"}) == str(python)


def test_the_python_of_a_venv_keeps_its_own_name_though_it_is_a_link(tmp_path: Path) -> None:
    python = tmp_path / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.symlink_to("/bin/sh")
    assert found(tmp_path, {"type": "venv_python"}) == str(python)


@pytest.mark.parametrize("kind", ["directory", "broken link", "loop", "venv is a file"])
def test_what_is_no_file_is_not_there_and_the_fallback_value_is_used(tmp_path: Path, kind: str) -> None:
    python = tmp_path / ".venv/bin/python"
    if kind == "venv is a file":
        put(tmp_path / ".venv")
    elif kind == "directory":
        python.mkdir(parents=True)
    else:
        python.parent.mkdir(parents=True)
        python.symlink_to("python" if kind == "loop" else "gone")
    assert found(tmp_path, {"type": "venv_python", "fallback": "python3"}) == "python3"


def test_a_venv_path_can_be_another_directory_or_an_absolute_one(tmp_path: Path) -> None:
    project = tmp_path / "project"
    inner = put(project / "env/py/bin/python")
    outer = put(tmp_path / "elsewhere/bin/python")
    assert found(project, {"type": "venv_python", "venv_path": "env/py"}) == str(inner)
    for root in (project, None):
        assert found(root, {"type": "venv_python", "venv_path": str(outer.parents[1])}) == str(outer)


def test_without_a_project_a_relative_venv_is_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / ".venv/bin/python")
    monkeypatch.chdir(tmp_path)
    assert found(None, {"type": "venv_python", "fallback": "f"}) == "f"


def places(path: Path) -> dict[str, str]:
    """A Python in each of the three places."""
    return {
        "project": str(put(path / "project/.venv/bin/python3")),
        "user": str(put(path / "user/.venv/bin/python3")),
        "system": str(put(path / "system/python3")),
    }


@pytest.mark.parametrize(
    "search",
    [
        ["project"],
        ["user"],
        ["system"],
        ["project", "user", "system"],
        ["system", "user"],
        ["user", "project"],
    ],
)
def test_search_is_tried_in_order(tmp_path: Path, search: list[str]) -> None:
    pythons = places(tmp_path)
    interpreter = {"type": "venv_python", "search": search, "fallback": "fallback"}
    env = {"HOME": str(tmp_path / "user"), "PATH": str(tmp_path / "system")}
    for place in search:
        assert found(tmp_path / "project", interpreter, **env) == pythons[place]
        Path(pythons[place]).unlink()
    assert found(tmp_path / "project", interpreter, **env) == "fallback"


def test_without_search_only_the_project_is_looked_at_and_then_the_fallback(tmp_path: Path) -> None:
    pythons = places(tmp_path)
    Path(pythons["project"]).unlink()
    env = {"HOME": str(tmp_path / "user"), "PATH": str(tmp_path / "system")}
    assert found(tmp_path / "project", {"type": "venv_python", "fallback": "python3"}, **env) == "python3"


def test_the_users_place_is_the_user_space_of_the_context_else_the_home_directory(tmp_path: Path) -> None:
    home, space = put(tmp_path / "home/.venv/bin/python"), put(tmp_path / "space/.venv/bin/python")
    config = {"interpreter": {"type": "venv_python", "search": ["user"], "var": "FOUND", "fallback": "f"}}
    base = {"HOME": str(tmp_path / "home")}

    def user_python(context: dict[str, Any] | None, base: dict[str, str]) -> str:
        return EnvResolver().resolve(config, context=context, base_env=base)["FOUND"]

    assert user_python({"user_space": str(tmp_path / "space")}, base) == str(space)
    assert user_python({"user_space": tmp_path / "other"}, base) == "f"
    assert user_python({}, base) == str(home)
    assert user_python(None, {}) == "f"
    assert user_python(None, {"HOME": "relative"}) == "f"


def test_in_the_system_place_python3_comes_before_python(tmp_path: Path) -> None:
    python = put(tmp_path / "a/python")
    interpreter = {"type": "venv_python", "search": ["system"]}
    path = f"{tmp_path}/a:{tmp_path}/b"
    assert found(None, interpreter, PATH=path) == str(python)
    python3 = put(tmp_path / "b/python3")
    assert found(None, interpreter, PATH=path) == str(python3)


# --- node_modules -----------------------------------------------------------------


def test_node_modules_checks_the_node_of_the_project(tmp_path: Path) -> None:
    node = put(tmp_path / "node_modules/.bin/node")
    assert found(tmp_path, {"type": "node_modules"}) == str(node)


def test_node_modules_checks_its_search_paths_in_order(tmp_path: Path) -> None:
    second = put(tmp_path / "project/b/node_modules/.bin/node")
    interpreter = {"type": "node_modules", "search_paths": ["a", "b", str(tmp_path / "c")]}
    assert found(tmp_path / "project", interpreter) == str(second)
    first = put(tmp_path / "project/a/node_modules/.bin/node")
    assert found(tmp_path / "project", interpreter) == str(first)
    absolute = put(tmp_path / "c/node_modules/.bin/node")
    assert found(None, interpreter) == str(absolute)


@pytest.mark.parametrize("path", ["node_modules", "node_modules/.bin"])
def test_a_search_path_may_lead_into_node_modules(tmp_path: Path, path: str) -> None:
    node = put(tmp_path / "node_modules/.bin/node")
    assert found(tmp_path, {"type": "node_modules", "search_paths": [path]}) == str(node)


def test_no_node_modules_leaves_the_fallback(tmp_path: Path) -> None:
    assert found(tmp_path, {"type": "node_modules", "fallback": "node"}) == "node"
    assert found(None, {"type": "node_modules", "fallback": "node"}) == "node"


# --- system_binary ----------------------------------------------------------------


def test_system_binary_finds_the_first_executable_file_on_path(tmp_path: Path) -> None:
    put(tmp_path / "a/tool", mode=0o644)
    (tmp_path / "b/tool").mkdir(parents=True)
    tool = put(tmp_path / "c/tool")
    put(tmp_path / "d/tool")
    path = ":".join(str(tmp_path / name) for name in "abcd")
    assert found(None, {"type": "system_binary", "binary": "tool"}, PATH=path) == str(tool)


def test_entries_of_path_that_mean_another_place_to_each_process_are_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "tool")
    monkeypatch.chdir(tmp_path)
    for path in (":", ".", "", f"{tmp_path.name}", "../" + tmp_path.name):
        assert found(tmp_path, {"type": "system_binary", "binary": "tool", "fallback": "f"}, PATH=path) == "f"


def test_the_path_is_that_of_the_environment_that_is_resolved(tmp_path: Path) -> None:
    tool = put(tmp_path / "bin/tool")
    (tmp_path / ".env").write_text(f"PATH={tool.parent}\n")
    assert found(tmp_path, {"type": "system_binary", "binary": "tool"}) == str(tool)


def test_without_a_path_the_systems_default_is_searched() -> None:
    config = {"interpreter": {"type": "system_binary", "binary": "sh", "var": "FOUND"}}
    env = EnvResolver().resolve(config, base_env={})
    assert env["FOUND"] in {"/bin/sh", "/usr/bin/sh"}


def test_system_binary_can_be_an_absolute_path(tmp_path: Path) -> None:
    tool = put(tmp_path / "tool")
    assert found(None, {"type": "system_binary", "binary": str(tool)}) == str(tool)
    assert found(None, {"type": "system_binary", "binary": "/gone/tool", "fallback": "f"}) == "f"


def test_a_directory_that_cannot_be_searched_is_passed_over(tmp_path: Path) -> None:
    tool = put(tmp_path / "good/tool")
    path = f"/{'x' * 300}:{'/y' * 5000}:{tool}:{tool.parent}"
    assert found(None, {"type": "system_binary", "binary": "tool"}, PATH=path) == str(tool)


# --- var and fallback -------------------------------------------------------------


def test_a_found_interpreter_sets_the_variable_over_anything_that_was_there(tmp_path: Path) -> None:
    python = put(tmp_path / ".venv/bin/python")
    assert found(tmp_path, {"type": "venv_python", "fallback": "f"}, FOUND="old") == str(python)


def test_the_fallback_value_is_used_as_it_stands() -> None:
    assert (
        found(None, {"type": "system_binary", "binary": "none", "fallback": "${HOME} {x}"}) == "${HOME} {x}"
    )
    assert found(None, {"type": "system_binary", "binary": "none", "fallback": ""}, FOUND="old") == ""


def test_without_a_fallback_the_variable_stays_as_it_was() -> None:
    interpreter = {"type": "system_binary", "binary": "none"}
    assert found(None, interpreter) is None
    assert found(None, interpreter, FOUND="old") == "old"


# --- version_manager --------------------------------------------------------------

LAYOUTS = [
    ("pyenv", {"version": "3.11.7"}, ".pyenv/versions/3.11.7/bin/python"),
    ("pyenv", {"version": "pypy3.10-7.3.12", "binary": "pypy3"}, ".pyenv/versions/pypy3.10-7.3.12/bin/pypy3"),
    ("pyenv", {"version": "3.11.7/envs/web"}, ".pyenv/versions/3.11.7/envs/web/bin/python"),
    ("rbenv", {"version": "3.3.0"}, ".rbenv/versions/3.3.0/bin/ruby"),
    ("nvm", {"version": "20.1.0"}, ".nvm/versions/node/v20.1.0/bin/node"),
    ("nvm", {"version": "v20.1.0"}, ".nvm/versions/node/v20.1.0/bin/node"),
    ("asdf", {"version": "3.11.7"}, ".asdf/installs/python/3.11.7/bin/python"),
    ("asdf", {"version": "20.1.0", "tool": "nodejs"}, ".asdf/installs/nodejs/20.1.0/bin/node"),
    ("mise", {"version": "20.1.0", "tool": "node"}, ".local/share/mise/installs/node/20.1.0/bin/node"),
    ("mise", {"version": "1.22.1", "tool": "go"}, ".local/share/mise/installs/go/1.22.1/bin/go"),
    ("mise", {"version": "latest", "tool": "ruby"}, ".local/share/mise/installs/ruby/latest/bin/ruby"),
]


@pytest.mark.parametrize(("manager", "fields", "layout"), LAYOUTS)
def test_a_version_is_found_where_its_manager_is_documented_to_keep_it(
    tmp_path: Path, manager: str, fields: dict[str, str], layout: str
) -> None:
    interpreter = {"type": "version_manager", "manager": manager, **fields, "fallback": "f"}
    assert found(None, interpreter, HOME=str(tmp_path)) == "f"
    binary = put(tmp_path / layout)
    assert found(None, interpreter, HOME=str(tmp_path)) == str(binary)
    assert found(None, interpreter) == "f"


@pytest.mark.parametrize(
    ("manager", "variable", "below"),
    [
        ("pyenv", "PYENV_ROOT", "versions/1.2.3/bin/python"),
        ("rbenv", "RBENV_ROOT", "versions/1.2.3/bin/ruby"),
        ("nvm", "NVM_DIR", "versions/node/v1.2.3/bin/node"),
        ("nvm", "XDG_CONFIG_HOME", "nvm/versions/node/v1.2.3/bin/node"),
        ("asdf", "ASDF_DATA_DIR", "installs/python/1.2.3/bin/python"),
        ("mise", "MISE_DATA_DIR", "installs/python/1.2.3/bin/python"),
        ("mise", "XDG_DATA_HOME", "mise/installs/python/1.2.3/bin/python"),
    ],
)
def test_the_managers_own_variables_say_where_it_keeps_everything(
    tmp_path: Path, manager: str, variable: str, below: str
) -> None:
    binary = put(tmp_path / "root" / below)
    interpreter = {"type": "version_manager", "manager": manager, "version": "1.2.3", "fallback": "f"}
    env = {"HOME": str(tmp_path / "home"), variable: str(tmp_path / "root")}
    assert found(None, interpreter, **env) == str(binary)
    assert found(None, interpreter, **{**env, variable: "relative"}) == "f"


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("3.11", "3.11.10"),
        ("3", "3.12.1"),
        ("3.11.1", "3.11.1"),
        ("3.1", "3.1.4"),
        ("3.13", None),
        ("3.14", None),
        ("3.14-dev", "3.14-dev"),
        ("4", None),
    ],
)
def test_a_version_that_is_not_there_stands_for_the_newest_that_begins_with_it(
    tmp_path: Path, version: str, expected: str | None
) -> None:
    for name in ("3.1.4", "3.11.1", "3.11.9", "3.11.10", "3.12.1", "3.14-dev", "3.11.99-rc1"):
        put(tmp_path / f"versions/{name}/bin/python")
    (tmp_path / "versions/3.13.0").mkdir()  # without an interpreter
    interpreter = {"type": "version_manager", "manager": "pyenv", "version": version, "fallback": "f"}
    wanted = "f" if expected is None else str(tmp_path / f"versions/{expected}/bin/python")
    assert found(None, interpreter, PYENV_ROOT=str(tmp_path)) == wanted


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (None, "v20.9.0"),
        ("default", "v20.9.0"),
        ("lts/*", "v20.9.0"),
        ("lts/iron", "v20.9.0"),
        ("work", "v18.2.0"),
        ("node", "v21.0.0"),
        ("stable", "v21.0.0"),
        ("18", "v18.2.0"),
        ("v18", "v18.2.0"),
        ("unknown", None),
        ("loop", None),
        ("escape", None),
        ("binary", None),
        ("huge", None),
        ("pipe", None),
        ("iojs", None),
    ],
)
def test_aliases_of_nvm_are_followed(tmp_path: Path, version: str | None, expected: str | None) -> None:
    root = tmp_path / "nvm"
    for name in ("v18.2.0", "v20.9.0", "v21.0.0"):
        put(root / f"versions/node/{name}/bin/node")
    (tmp_path / "outside").write_text("v20.9.0")
    aliases = {
        "default": b"lts/*\n",
        "lts/*": b"lts/iron\n",
        "lts/iron": b"v20.9.0\n",
        "work": b"18.2.0",
        "loop": b"loop",
        "escape": b"../../outside",
        "binary": b"\xff\0",
        "huge": b"1" * 10_000,
    }
    for name, content in aliases.items():
        path = root / "alias" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    os.mkfifo(root / "alias/pipe")
    interpreter = {"type": "version_manager", "manager": "nvm", "version": version, "fallback": "f"}
    wanted = "f" if expected is None else str(root / f"versions/node/{expected}/bin/node")
    assert found(None, interpreter, NVM_DIR=str(root)) == wanted


def test_a_version_is_never_an_option_or_a_way_out() -> None:
    for text in ("3", "3.11.7", "lts/*", "lts/iron", "3.11/envs/web", "ref:v1", "temurin-21.0.1+12"):
        assert is_version(text)
    for text in (
        "",
        "-",
        "--x",
        "..",
        "../x",
        "a/../b",
        "a//b",
        "/a",
        "a/",
        "a b",
        "a\n",
        "a;b",
        "$(x)",
        "a\0",
    ):
        assert not is_version(text)


# --- questions --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("manager", "fields", "args", "binary"),
    [
        ("pyenv", {"version": "3.11"}, ("prefix", "3.11"), "bin/python"),
        ("pyenv", {}, ("which", "python"), None),
        ("rbenv", {"version": "3.3.0"}, ("prefix", "3.3.0"), "bin/ruby"),
        ("rbenv", {"binary": "irb"}, ("which", "irb"), None),
        ("asdf", {"version": "20.1", "tool": "nodejs"}, ("where", "nodejs", "20.1"), "bin/node"),
        ("asdf", {"tool": "nodejs"}, ("which", "node"), None),
        ("mise", {"version": "20", "tool": "node"}, ("where", "node@20"), "bin/node"),
        ("mise", {}, ("which", "python"), None),
    ],
)
def test_a_manager_is_asked_only_for_what_its_directories_do_not_tell(
    tmp_path: Path, manager: str, fields: dict[str, str], args: tuple[str, ...], binary: str | None
) -> None:
    around = Surroundings({"PATH": str(tmp_path / "bin"), "HOME": str(tmp_path)})
    strategy = VersionManager(manager, **fields)
    assert strategy.find(around) is None
    program = put(tmp_path / "bin" / manager)
    assert strategy.find(around) == Question(program, args, binary)


def test_nvm_is_never_asked(tmp_path: Path) -> None:
    put(tmp_path / "bin/nvm")
    around = Surroundings({"PATH": str(tmp_path / "bin"), "HOME": str(tmp_path)})
    assert VersionManager("nvm", "20").find(around) is None
    assert VersionManager("nvm").find(around) is None


@pytest.mark.parametrize("manager", [name for name in MANAGERS if name != "nvm"])
def test_a_manager_that_is_not_on_path_is_looked_for_where_it_installs_itself(
    tmp_path: Path, manager: str
) -> None:
    around = Surroundings({"PATH": "/nowhere", "HOME": str(tmp_path)})
    local = put(tmp_path / ".local/bin" / manager)
    question = VersionManager(manager, "1").find(around)
    assert isinstance(question, Question)
    assert question.program == local
    own = put((MANAGERS[manager].directory(around) or tmp_path) / "bin" / manager)
    question = VersionManager(manager, "1").find(around)
    assert isinstance(question, Question)
    assert question.program == own


@pytest.mark.parametrize("answer", ["{0}", "{0}\n", "  {0}  \nmore\n", "{0}\r\n"])
def test_the_first_line_of_an_answer_counts(tmp_path: Path, answer: str) -> None:
    python = put(tmp_path / "x/bin/python")
    assert Question(Path("p"), ()).read(answer.format(python)) == python
    assert Question(Path("p"), (), "bin/python").read(answer.format(tmp_path / "x")) == python


@pytest.mark.parametrize(
    "answer", ["", "\n", "bin/python", "bin", "~/x", "/gone", "nonsense", "\0", "/\0", "/" + "x" * 5000]
)
def test_an_answer_that_names_no_file_is_none(
    answer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "bin/python")
    monkeypatch.chdir(tmp_path)
    assert Question(Path("p"), ()).read(answer) is None
    assert Question(Path("p"), (), "bin/python").read(answer) is None


def test_the_permissions_of_a_venv_are_not_changed_by_looking(tmp_path: Path) -> None:
    python = put(tmp_path / ".venv/bin/python", mode=0o600)
    found(tmp_path, {"type": "venv_python"})
    assert stat.S_IMODE(python.stat().st_mode) == 0o600


def test_the_example_in_the_documentation_is_true() -> None:
    assert doctest.testmod(lilux.runtime.interpreters).failed == 0
