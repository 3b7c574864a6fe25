"""The items that ship with the package."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from ruamel.yaml import YAML

from lilux.primitives import http_client, subprocess
from lilux.primitives.errors import ConfigurationError
from rye_mcp.items import ItemFile, Space, SpaceName, parse_relative_path
from rye_mcp.metadata import ItemMetadata, parse_metadata
from rye_mcp.permissions import Access, Permissions, Requirement, hints

SYSTEM_SPACE = Path(__file__).resolve().parents[3] / ".ai"
PRIMITIVES = SYSTEM_SPACE / "tools/rye/core/primitives"

FIELDS = {
    *(
        "name",
        "version",
        "description",
        "category",
        "tool_type",
        "executor_id",
        "permissions",
        "config_schema",
    ),
}

# The keys and defaults that the two primitives are specified with.
SUBPROCESS_DEFAULTS: dict[str, object] = {
    "args": [],
    "cwd": None,
    "input_data": None,
    "env": {},
    "timeout": 300,
    "shell": False,
    "max_output": 1_048_576,
}
HTTP_CLIENT_DEFAULTS: dict[str, object] = {
    "mode": "sync",
    "method": "GET",
    "headers": {},
    "body": None,
    "timeout": 30,
    "retry": {},
    "auth": {},
    "follow_redirects": False,
    "allow_private_hosts": False,
    "max_response_bytes": 10_485_760,
    "sinks": [],
}


def load(name: str) -> dict[str, Any]:
    with (PRIMITIVES / f"{name}.yaml").open(encoding="utf-8") as file:
        item: dict[str, Any] = YAML(typ="safe", pure=True).load(file)
    return item


def accepts(name: str, config: object) -> bool:
    validator = Draft202012Validator(load(name)["config_schema"])
    return not list(validator.iter_errors(config))


def test_the_package_sees_the_system_space_through_its_link() -> None:
    link = SYSTEM_SPACE.parent / "src/rye_mcp/.ai"
    assert link.is_symlink()
    assert link.samefile(SYSTEM_SPACE)


@pytest.mark.parametrize("path", sorted(PRIMITIVES.glob("*.yaml")), ids=lambda path: path.stem)
def test_a_primitive_says_what_it_is(path: Path) -> None:
    item = load(path.stem)
    assert set(item) == FIELDS
    assert item["name"] == path.stem
    assert re.fullmatch(r"\d+\.\d+\.\d+", item["version"])
    assert item["category"] == path.parent.relative_to(SYSTEM_SPACE / "tools").as_posix()
    assert item["tool_type"] == "primitive"
    assert item["executor_id"] is None
    assert item["description"].endswith(".")


@pytest.mark.parametrize(
    ("name", "required", "defaults"),
    [("subprocess", "command", SUBPROCESS_DEFAULTS), ("http_client", "url", HTTP_CLIENT_DEFAULTS)],
)
def test_a_schema_has_the_specified_keys_and_defaults(
    name: str, required: str, defaults: dict[str, object]
) -> None:
    schema = load(name)["config_schema"]
    Draft202012Validator.check_schema(schema)
    assert schema["required"] == [required]
    assert schema["additionalProperties"] is False
    properties = schema["properties"]
    assert {key: value["default"] for key, value in properties.items() if key != required} == defaults
    assert all(value["description"] for value in properties.values())
    assert accepts(name, {required: "x", **defaults})


def refusal(part: str, value: dict[str, str]) -> str:
    """What Lilux says of a part of a request that has a key too many."""
    with pytest.raises(ConfigurationError) as caught:
        http_client.render({"url": "https://example.org/", part: {**value, "x": "x"}})
    return str(caught.value)


def keys_told(part: str, value: dict[str, str]) -> set[str]:
    """The keys that this refusal says Lilux knows."""
    (keys,) = re.findall(f"expected only (.*) in {part}, found x", refusal(part, value))
    return set(keys.split(", "))


def test_lilux_takes_exactly_the_keys_of_the_subprocess_schema() -> None:
    properties = load("subprocess")["config_schema"]["properties"]
    assert set(properties) == subprocess.CONFIG_KEYS
    # Without a limit of ours the supervisor's holds, which docs/protocol.md gives as the same.
    stated = subprocess.render({"command": "true", **SUBPROCESS_DEFAULTS})
    assert replace(stated, max_output=None) == subprocess.render({"command": "true"})


def test_lilux_takes_exactly_the_keys_of_the_http_client_schema() -> None:
    schema = load("http_client")["config_schema"]
    properties = schema["properties"]
    assert set(properties) == http_client.CONFIG_KEYS
    assert keys_told("retry", {}) == set(properties["retry"]["properties"])
    forms = {
        form["properties"]["type"]["const"]: set(form["properties"])
        for form in properties["auth"]["anyOf"]
        if "properties" in form
    }
    assert f"expected {' or '.join(forms)} as auth.type" in refusal("auth", {"type": "x"})
    assert {name: keys_told("auth", {"type": name}) for name in forms} == forms


def test_lilux_has_the_defaults_of_the_http_client_schema() -> None:
    url = "https://example.org/"
    assert http_client.render({"url": url, **HTTP_CLIENT_DEFAULTS}) == http_client.render({"url": url})
    retry = load("http_client")["config_schema"]["properties"]["retry"]["properties"]
    defaults = {key: value["default"] for key, value in retry.items()}
    assert http_client.render({"url": url, "retry": defaults}) == http_client.render({"url": url})


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"command": ""},
        {"command": ["echo"]},
        {"command": "echo", "args": "hi"},
        {"command": "echo", "args": [1]},
        {"command": "echo", "env": {"A": 1}},
        {"command": "echo", "timeout": 0},
        {"command": "echo", "timeout": -1},
        {"command": "echo", "max_output": 10},
        {"command": "echo", "shell": "yes"},
        {"command": "echo", "comand": "typo"},
    ],
)
def test_a_wrong_subprocess_configuration_is_refused(config: dict[str, object]) -> None:
    assert not accepts("subprocess", config)


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"url": ""},
        {"url": "https://example.org", "mode": "async"},
        {"url": "https://example.org", "timeout": 0},
        {"url": "https://example.org", "retry": {"max_attempts": 0}},
        {"url": "https://example.org", "retry": {"on_status": [99]}},
        {"url": "https://example.org", "auth": {"type": "bearer"}},
        {"url": "https://example.org", "auth": {"type": "basic", "token": "t"}},
        {"url": "https://example.org", "auth": {"type": "api_key", "token": "t"}},
        {"url": "https://example.org", "headers": {"X-Number": 1}},
        {"url": "https://example.org", "metod": "typo"},
    ],
)
def test_a_wrong_http_configuration_is_refused(config: dict[str, object]) -> None:
    assert not accepts("http_client", config)
    with pytest.raises(ConfigurationError):
        http_client.render(config)


@pytest.mark.parametrize(
    "auth",
    [{}, {"type": "bearer", "token": "${T}"}, {"type": "api_key", "key": "${K}", "header": "X-Key"}],
)
def test_the_specified_forms_of_authentication_are_accepted(auth: dict[str, str]) -> None:
    assert accepts("http_client", {"url": "https://example.org", "auth": auth})


def declared(path: Path) -> ItemMetadata:
    relative = path.relative_to(SYSTEM_SPACE).as_posix()
    found = parse_relative_path(relative)
    assert found is not None
    return parse_metadata(ItemFile(Space(SpaceName.SYSTEM, SYSTEM_SPACE), *found, path, path.read_bytes()))


TOOLS = [
    path
    for path in sorted((SYSTEM_SPACE / "tools").rglob("*"))
    if path.is_file() and "lib" not in path.parts and path.suffix in {".py", ".yaml", ".mjs"}
]


def test_every_item_declares_what_it_may_do_and_every_runtime_nothing_but_needs() -> None:
    said = {path.stem: declared(path) for path in TOOLS}
    for name, metadata in said.items():
        if metadata.is_runtime:
            assert metadata.permissions is None, name
        elif metadata.declares_executor:
            assert metadata.permissions is not None, name
            assert not metadata.permissions.unconfined, name
            assert metadata.needs is None, name
    assert len([each for each in said.values() if each.permissions is not None]) > 20


def test_no_item_claims_less_than_it_declares() -> None:
    """What an item says as annotations is what a cell would make true, or more cautious."""
    for path in TOOLS:
        metadata = declared(path)
        if metadata.permissions is None or metadata.annotations is None:
            continue
        derived = hints(metadata.permissions, Requirement.CELL)
        said = metadata.annotations
        assert derived["openWorldHint"] <= said["openWorldHint"], path
        assert derived["destructiveHint"] <= (said["destructiveHint"] or not said["readOnlyHint"]), path
        assert said["readOnlyHint"] <= (derived["readOnlyHint"] or path.stem == "fetch"), path


READING = ["read", "ls", "glob", "grep", "status", "diff", "log", "show", "explain", "verify"]


@pytest.mark.parametrize("name", READING)
def test_what_only_reads_declares_no_more(name: str) -> None:
    (permissions,) = [
        declared(path).permissions
        for path in TOOLS
        if path.stem == name and path.parent.name in {"file-system", "git", "core"}
    ]
    assert permissions is not None
    assert permissions.is_within(Permissions(Access.READ, uses=frozenset({"git"})))


def test_a_default_of_a_primitive_is_not_repeated_where_it_would_have_to_be_changed_too() -> None:
    items = {path.relative_to(SYSTEM_SPACE / "tools").with_suffix("").as_posix(): path for path in TOOLS}
    said = {item_id: declared(path) for item_id, path in items.items()}
    repeated, looked_at = [], 0
    for item_id, metadata in said.items():
        config, executor = metadata.config or {}, metadata.executor_id
        while executor is not None and not (below := said[executor]).is_primitive:
            executor = below.executor_id
        if executor is None or "timeout" not in config:
            continue
        looked_at += 1
        schema = said[executor].config_schema or {}
        repeated += [item_id] * (config["timeout"] == schema["properties"]["timeout"]["default"])
    assert looked_at > 5
    assert repeated == []
