"""The configuration of a chain, merged from the `config` of its elements: no data of a caller is in it.

`null` takes a value away, `{key}` stands for another value, and a key that nothing knows is refused. The
rules are in `docs/architecture/execution.md`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from itertools import pairwise, takewhile
from typing import Any, Final

from lilux import _templates
from lilux._dataclasses import dataclass
from rye_mcp.errors import RyeError
from rye_mcp.executor.chain.builder import Chain, ChainElement, once_a_chain
from rye_mcp.metadata import CALLING_KEYS

__all__ = [
    "ARGUMENTS",
    "CONTEXT",
    "MAX_ROUNDS",
    "PARAMETER_PREFIX",
    "PARAMS_ENV",
    "MergedConfig",
    "Uses",
    "arguments_before_call",
    "key_of",
    "merge_config",
    "merged",
    "passed_elsewhere",
    "runs_given_code",
]

MAX_ROUNDS: Final = 3
"""How often values of a configuration are put into each other."""

MAX_CHARACTERS: Final = 1 << 20
"""How much text may be put into others in one round."""

CONTEXT: Final = frozenset(
    [
        *("tool_path", "tool_dir", "tool_source_path", "project_path", "user_space", "system_space"),
        *("anchor_path", "runtime_lib", "params_json", "item_id"),
    ]
)
"""Names in templates besides configuration and parameters."""

_OF_EVERY_CALL: Final = frozenset({"project_path", "user_space", "system_space"})
"""The part of the context that is the same in every call of one executor."""

PARAMS_ENV: Final = "params_env"
"""The key of a process that no primitive knows: the prefix of variables for parameters."""

ARGUMENTS: Final = "arguments"
"""The key of a process that says that its parameters become flags."""

_ARGS_WITH_FLAGS: Final = "args_with_flags"
_OF_FLAGS: Final = frozenset({*CALLING_KEYS, _ARGS_WITH_FLAGS})

PARAMETER_PREFIX: Final = "params."
"""The prefix of names that are always parameters."""

_CODE_OPTIONS: Final = frozenset({"-c", "-e", "-E", "-r", "--eval", "--command"})
"""Options of interpreters and shells behind which code stands."""

_REFERENCE: Final = re.compile(r"(?<!\$)\{([A-Za-z_][A-Za-z0-9_.-]*)\}")
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class Uses:
    """The names in braces and variables of the environment in templates."""

    names: frozenset[str] = frozenset()
    variables: frozenset[str] = frozenset()

    @classmethod
    def of(cls, value: Any) -> Uses:
        """Collect the uses in all texts of a structure."""
        found = set(_placeholders(value))
        names = (each.name for each in found if isinstance(each, _templates.Parameter))
        variables = (each.name for each in found if isinstance(each, _templates.EnvironmentReference))
        return cls(frozenset(names), frozenset(variables))


@dataclass(frozen=True, slots=True)
class MergedConfig:
    """A configuration in which nothing refers to itself any more; who says what in it, and what it uses."""

    chain: Chain
    values: Mapping[str, Any]
    owners: Mapping[str, ChainElement] = field(repr=False)
    uses: Mapping[str, Uses] = field(repr=False, default_factory=dict)
    literals: frozenset[str] = frozenset()
    _asked: dict[tuple[str, ...], Uses] = field(repr=False, compare=False, default_factory=dict)

    def uses_of(self, *keys: str) -> Uses:
        """Return the uses in these values."""
        known = self._asked.get(keys)
        if known is None:
            found = [self.uses[key] for key in keys if key in self.uses]
            names = frozenset(name for each in found for name in each.names)
            variables = frozenset(name for each in found for name in each.variables)
            known = self._asked[keys] = Uses(names, variables)
        return known

    def refusal(self, field_name: str | None, problem: str) -> RyeError:
        """The error for a field, such as `args[1]`, that the element nearest to the tool says wrongly."""
        return _refusal(self.owners.get(key_of(field_name), self.chain.root), field_name, problem)


def key_of(field_name: str | None) -> str:
    """The key of a configuration that a field is, or is in: `headers` for `headers.Accept`."""
    return re.split(r"[.\[]", field_name or "", maxsplit=1)[0]


def runs_given_code(chain: Chain, declared: frozenset[str]) -> bool:
    """Whether what runs comes from the caller: an element says so, or a declared parameter is the program,
    or the code behind an option such as `-c`.
    """
    if any(element.metadata.runs_given_code for element in chain.elements):
        return True
    args = merged(chain).values.get("args")
    options = pairwise(args) if isinstance(args, list) else ()
    code = [text for option, text in options if option in _CODE_OPTIONS]
    used = merged(chain).uses_of("command").names | Uses.of(code).names
    return not declared.isdisjoint(name.removeprefix(PARAMETER_PREFIX) for name in used)


@once_a_chain
def arguments_before_call(chain: Chain) -> int:
    """How many of the first arguments of a process are the same in every call: those of its interpreter."""
    args = merged(chain).values.get("args")
    uses = map(Uses.of, args if isinstance(args, list) else ())
    return sum(1 for _ in takewhile(lambda each: not each.variables and each.names <= _OF_EVERY_CALL, uses))


@once_a_chain
def merge_config(chain: Chain) -> Mapping[str, Any]:
    """Merge the configurations of the elements; templates are not filled."""
    whole: dict[str, Any] = {}
    for element in chain.upward:
        whole = _over(whole, element.metadata.config or {})
    return {name: value for name, value in whole.items() if value is not None}


@once_a_chain
def merged(chain: Chain) -> MergedConfig:
    """The configuration of a chain, checked; RyeError `invalid_item` with the element that is wrong."""
    whole = dict(merge_config(chain))
    owners = {
        name: element for element in chain.upward for name in element.metadata.config or {} if name in whole
    }
    literals = {name: whole.pop(name) for name in _literal_keys(chain) if name in whole}
    unlinked = MergedConfig(chain, whole, owners)
    references = set(_references(whole)) - CONTEXT
    _check_keys(unlinked, references)
    unlinked = _called_with_flags(unlinked)
    whole = dict(unlinked.values)
    names = {name for name in references & whole.keys() if not name.startswith(PARAMETER_PREFIX)}
    values = _linked(unlinked, names) if names else whole
    uses = {name: Uses.of(value) for name, value in values.items()}
    return MergedConfig(chain, {**values, **literals}, owners, uses, frozenset(literals))


def _literal_keys(chain: Chain) -> frozenset[str]:
    """The keys whose text is no template."""
    schema = chain.primitive.metadata.config_schema or {}
    known = schema.get("properties", {})
    return frozenset(
        name for name, said in known.items() if isinstance(said, Mapping) and said.get("readOnly")
    )


def _check_keys(config: MergedConfig, references: set[str]) -> None:
    schema = config.chain.primitive.metadata.config_schema
    if schema is None or "properties" not in schema:
        return
    known = {*schema["properties"], PARAMS_ENV}
    if "args" in known:
        known |= _OF_FLAGS
    for name in config.values:
        if name not in known and name not in references:
            raise config.refusal(
                name, f"expected only {', '.join(sorted(known))}, or what a text refers to, found {name!r}"
            )


def _called_with_flags(config: MergedConfig) -> MergedConfig:
    """The configuration of a process whose parameters become flags, and of any other one as it is."""
    values = {name: value for name, value in config.values.items() if name != _ARGS_WITH_FLAGS}
    if ARGUMENTS not in values:
        return replace(config, values=values)
    root, owners = config.chain.root, config.owners
    if values.get("shell"):
        raise config.refusal(ARGUMENTS, "expected no shell, which would read the flags, found shell: true")
    if owners.get("args") is not root:
        if _ARGS_WITH_FLAGS not in config.values:
            raise config.refusal(ARGUMENTS, f"expected a runtime that says {_ARGS_WITH_FLAGS}, found none")
        values["args"] = config.values[_ARGS_WITH_FLAGS]
    if owners.get("input_data") is not root:
        values.pop("input_data", None)
    values.pop(PARAMS_ENV, None)
    return replace(config, values=values)


def passed_elsewhere(config: MergedConfig) -> frozenset[str]:
    """The parameters that templates of a process pass, so that they need no flag."""
    names = config.uses_of("args", "input_data", "env").names
    return frozenset(name.removeprefix(PARAMETER_PREFIX) for name in names)


def _linked(config: MergedConfig, names: set[str]) -> dict[str, Any]:
    """The values with each other put in."""
    values = dict(config.values)
    for _ in range(MAX_ROUNDS):
        texts = _Texts(config, {name: _text(values[name]) for name in names})
        for name, value in values.items():
            values[name] = texts.put_into(name, value)
        if names.isdisjoint(_references(values)):
            return values
    wrong = next(name for name, value in values.items() if not names.isdisjoint(_references(value)))
    raise config.refusal(
        wrong, f"expected values that refer to each other at most {MAX_ROUNDS} times, found more"
    )


@dataclass(slots=True)
class _Texts:
    """The texts that are put into other values in one round, as long as there is room."""

    config: MergedConfig
    texts: Mapping[str, str]
    room: int = MAX_CHARACTERS

    def put_into(self, name: str, value: Any) -> Any:
        """The value of a key, filled."""
        if isinstance(value, str):
            return _REFERENCE.sub(lambda found: self._text(name, found), value)
        if isinstance(value, Mapping):
            return {key: self.put_into(name, item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.put_into(name, item) for item in value]
        return value

    def _text(self, name: str, found: re.Match[str]) -> str:
        text = self.texts.get(found[1])
        if text is None:
            return found[0]
        self.room -= len(text)
        if self.room < 0:
            what = f"expected at most {MAX_CHARACTERS} characters out of other values, found more"
            raise self.config.refusal(name, what)
        return text


def _references(value: Any) -> Iterator[str]:
    """Every `{name}` in a structure."""
    if isinstance(value, str):
        yield from (found[1] for found in _REFERENCE.finditer(value))
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _references(item)
    elif isinstance(value, list):
        for item in value:
            yield from _references(item)


def _placeholders(value: Any) -> Iterator[_templates.Placeholder]:
    if isinstance(value, str):
        yield from _templates.placeholders(value)
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _placeholders(item)
    elif isinstance(value, list):
        for item in value:
            yield from _placeholders(item)


def _over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    whole = dict(below)
    for name, value in above.items():
        own = whole.get(name)
        if isinstance(own, Mapping) and isinstance(value, Mapping):
            whole[name] = _over(own, value)
        elif value is None and name in whole:
            del whole[name]
        else:
            whole[name] = value
    return whole


def _text(value: Any) -> str:
    return value if isinstance(value, str) else _ENCODER.encode(value)


def _refusal(element: ChainElement, field_name: str | None, problem: str) -> RyeError:
    where = "config" if field_name is None else f"config.{field_name}"
    return RyeError(
        "invalid_item",
        f"{element.item_id}: {where}: {problem}",
        where=element.path,
        item_id=element.item_id,
        field=where,
    )
