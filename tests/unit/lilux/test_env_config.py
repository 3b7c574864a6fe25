"""A malformed ENV_CONFIG is refused with everything that is wrong with it, before anything happens."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lilux.primitives.errors import ConfigurationError
from lilux.runtime import _env_config
from lilux.runtime.env_resolver import EnvResolver
from lilux.runtime.interpreters import NodeModules, SystemBinary, VenvPython
from lilux.runtime.version_managers import VersionManager

GOOD: dict[str, dict[str, Any]] = {
    "venv_python": {"var": "V"},
    "node_modules": {"var": "V"},
    "system_binary": {"var": "V", "binary": "sh"},
    "version_manager": {"var": "V", "manager": "pyenv", "version": "3.11"},
}


def refused(config: Any) -> ConfigurationError:
    with pytest.raises(ConfigurationError) as caught:
        EnvResolver().resolve(config, base_env={})
    return caught.value


@pytest.mark.parametrize(
    ("config", "field", "words"),
    [
        ([], "env_config", "an object as env_config, found list"),
        ("x", "env_config", "found str"),
        (
            {"enviroment": {}},
            "env_config",
            "expected only interpreter, env as env_config, found 'enviroment'",
        ),
        ({7: {}}, "env_config", "found 7"),
        ({"env": ["A=1"]}, "env_config.env", "an object as env_config.env, found list"),
        ({"env": {"A": {}}}, "env_config.env.A", "a truth value as env_config.env.A, found dict"),
        ({"env": {"A": "\0"}}, "env_config.env.A", "text without NUL"),
        ({"env": {"A": "\ud800"}}, "env_config.env.A", "text without NUL"),
        ({"env": {"": "1"}}, "env_config.env", "names of variables as env_config.env, found ''"),
        ({"env": {"A=B": "1"}}, "env_config.env", "found 'A=B'"),
        ({"env": {None: "1"}}, "env_config.env", "found None"),
        ({"interpreter": []}, "env_config.interpreter", "an object as env_config.interpreter, found list"),
        ({"interpreter": [GOOD]}, "env_config.interpreter", "found list"),
        ({"interpreter": {}}, "env_config.interpreter.type", "one of venv_python, node_modules"),
        ({"interpreter": {"type": "conda"}}, "env_config.interpreter.type", "found 'conda'"),
        ({"interpreter": {"type": ["venv_python"]}}, "env_config.interpreter.type", "found list"),
    ],
)
def test_every_kind_of_malformed_config_names_its_field(config: Any, field: str, words: str) -> None:
    error = refused(config)
    assert error.field == field
    assert words in str(error)


@pytest.mark.parametrize(
    ("kind", "fields", "field", "words"),
    [
        (
            "venv_python",
            {"var": None},
            "var",
            "the name of a variable as env_config.interpreter.var, found nothing",
        ),
        ("venv_python", {"var": ""}, "var", "found ''"),
        ("venv_python", {"var": "A=B"}, "var", "found 'A=B'"),
        ("venv_python", {"var": 7}, "var", "found 7"),
        ("venv_python", {"fallback": 7}, "fallback", "text as env_config.interpreter.fallback, found 7"),
        ("venv_python", {"fallback": "a\0"}, "fallback", "text"),
        ("venv_python", {"venv_path": ""}, "venv_path", "a path"),
        ("venv_python", {"venv_path": ["a"]}, "venv_path", "found list"),
        ("venv_python", {"venv_path": "a\0b"}, "venv_path", "a path"),
        ("venv_python", {"search": "project"}, "search", "a list of project, user, system"),
        ("venv_python", {"search": []}, "search", "found list"),
        ("venv_python", {"search": ["project", "team"]}, "search", "found list"),
        ("venv_python", {"search": [["project"]]}, "search", "found list"),
        ("venv_python", {"binary": "python"}, "", "expected only type, venv_path, search, var, fallback"),
        ("node_modules", {"search_paths": "."}, "search_paths", "a list of paths"),
        ("node_modules", {"search_paths": [7]}, "search_paths", "a list of paths"),
        ("system_binary", {"binary": None}, "binary", "found nothing"),
        ("system_binary", {"binary": "bin/sh"}, "binary", "the name of a program, or its absolute path"),
        ("system_binary", {"binary": ".."}, "binary", "found '..'"),
        ("system_binary", {"binary": "-c"}, "binary", "found '-c'"),
        ("version_manager", {"manager": None}, "manager", "one of pyenv, rbenv, nvm, asdf, mise"),
        ("version_manager", {"manager": "volta"}, "manager", "found 'volta'"),
        ("version_manager", {"manager": {}}, "manager", "found dict"),
        ("version_manager", {"version": 3.1}, "version", "a version, as text (in quotes)"),
        ("version_manager", {"version": "../3"}, "version", "found '../3'"),
        ("version_manager", {"version": "3/../../x"}, "version", "found '3/../../x'"),
        ("version_manager", {"version": "--unset"}, "version", "found '--unset'"),
        ("version_manager", {"version": ""}, "version", "found ''"),
        ("version_manager", {"version": "3;id"}, "version", "found '3;id'"),
        ("version_manager", {"version": "3\n"}, "version", "a version"),
        ("version_manager", {"tool": "../x"}, "tool", "found '../x'"),
        ("version_manager", {"binary": "a/b"}, "binary", "found 'a/b'"),
        ("version_manager", {"search": ["project"]}, "", "found 'search'"),
    ],
)
def test_every_malformed_field_of_an_interpreter_is_named(
    kind: str, fields: dict[str, Any], field: str, words: str
) -> None:
    error = refused({"interpreter": {"type": kind, **GOOD[kind], **fields}})
    assert error.field == f"env_config.interpreter.{field}".rstrip(".")
    assert words in str(error)


def test_all_issues_are_reported_at_once_and_no_value_of_a_variable() -> None:
    error = refused(
        {
            "interpreter": {"type": "venv_python", "search": ["moon"], "colour": "red"},
            "env": {"A": ["s3cret"], "B": {"s3cret": 1}},
            "more": 1,
        }
    )
    fields = ("found 'more'", "found 'colour'", "interpreter.search", "interpreter.var", "env.A", "env.B")
    assert [name for name in fields if name not in str(error)] == []
    assert "s3cret" not in str(error)


def test_a_long_wrong_value_is_not_repeated_in_full() -> None:
    assert len(str(refused({"interpreter": {"type": "x" * 10_000}}))) < 300


@pytest.mark.parametrize(
    ("interpreter", "strategy"),
    [
        ({"type": "venv_python"}, VenvPython(".venv", ("project",))),
        (
            {"type": "venv_python", "venv_path": "env", "search": ["user", "system"]},
            VenvPython("env", ["user", "system"]),
        ),
        ({"type": "node_modules"}, NodeModules((".",))),
        ({"type": "node_modules", "search_paths": ["ui", "/opt"]}, NodeModules(["ui", "/opt"])),
        ({"type": "system_binary", "binary": "/bin/sh"}, SystemBinary("/bin/sh")),
        ({"type": "version_manager", "manager": "nvm"}, VersionManager("nvm")),
        (
            {
                "type": "version_manager",
                "manager": "mise",
                "version": "lts/*",
                "tool": "node",
                "binary": "npx",
            },
            VersionManager("mise", "lts/*", "node", "npx"),
        ),
    ],
)
def test_a_good_config_becomes_the_strategy_that_it_names(
    interpreter: dict[str, Any], strategy: object
) -> None:
    parsed = _env_config.parse({"interpreter": {**interpreter, "var": "V", "fallback": "f"}}).interpreter
    assert parsed == _env_config.Interpreter("V", strategy, "f")  # type: ignore[arg-type]


def test_a_field_that_is_null_is_not_given() -> None:
    interpreter = {"type": "venv_python", "venv_path": None, "search": None, "var": "V", "fallback": None}
    assert _env_config.parse({"interpreter": interpreter, "env": None}) == _env_config.EnvConfig(
        _env_config.Interpreter("V", VenvPython()), {}
    )


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
NAMES = st.sampled_from(
    ["type", "var", "fallback", "venv_path", "search", "search_paths", "binary", "manager", "version"]
)
KINDS = st.sampled_from([*_env_config.FIELDS, "pyenv", "project", "."])


@given(
    st.fixed_dictionaries(
        {
            "interpreter": JSON | st.dictionaries(NAMES, KINDS | JSON),
            "env": JSON | st.dictionaries(NAMES, JSON),
        }
    )
)
def test_any_config_resolves_to_text_or_is_refused_with_a_field(config: dict[str, Any]) -> None:
    try:
        env = EnvResolver("/nowhere").resolve(config, base_env={"PATH": "/nowhere", "HOME": "/nowhere"})
    except ConfigurationError as exc:
        env = {"field": exc.field or "none"}
    assert env.get("field") != "none"
    assert all(isinstance(text, str) for pair in env.items() for text in pair)
