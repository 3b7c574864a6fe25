"""The configuration of a chain, out of the `config` of its elements: verified text, and no data of a caller.

Rules:

- From the primitive up: mappings are merged, everything else is replaced by what is nearer to the tool, and
  `null` takes away what was there.
- A text may hold `{key}` for another value of the configuration; that value is template text too. After
  `MAX_ROUNDS` rounds nothing may refer to a value any more: values that refer to themselves are refused.
- A key has to mean something: the primitive's `config_schema` knows it, or some text refers to it. Any other
  is refused, with the element that has it: it would be a mistake that nobody notices.
- Names of the context (`CONTEXT`) and `params.…` are never values of a configuration.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from lilux import _templates
from rye_mcp.errors import RyeError
from rye_mcp.executor.chain import Chain, ChainElement, once_a_chain

__all__ = [
    "CONTEXT",
    "MAX_ROUNDS",
    "PARAMETER_PREFIX",
    "PARAMS_ENV",
    "MergedConfig",
    "Uses",
    "key_of",
    "merge_config",
    "merged",
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
"""What templates can name besides configuration and parameters."""

PARAMS_ENV: Final = "params_env"
"""The key of a process that no primitive knows: the prefix of variables for parameters."""

PARAMETER_PREFIX: Final = "params."
"""What a name begins with that is always a parameter."""

_REFERENCE: Final = re.compile(r"(?<!\$)\{([A-Za-z_][A-Za-z0-9_.-]*)\}")
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class Uses:
    """What templates ask for: names in braces, and variables of the environment."""

    names: frozenset[str] = frozenset()
    variables: frozenset[str] = frozenset()

    @classmethod
    def of(cls, value: Any) -> Uses:
        """What the texts in a structure ask for."""
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
    _asked: dict[tuple[str, ...], Uses] = field(repr=False, compare=False, default_factory=dict)

    def uses_of(self, *keys: str) -> Uses:
        """What these values ask for."""
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


@once_a_chain
def merge_config(chain: Chain) -> Mapping[str, Any]:
    """What the elements say, merged; templates are as they stand."""
    whole: dict[str, Any] = {}
    for element in chain.upward:
        whole = _over(whole, element.metadata.config or {})
    return {name: value for name, value in whole.items() if value is not None}


@once_a_chain
def merged(chain: Chain) -> MergedConfig:
    """The configuration of a chain, checked; RyeError `invalid_item` with the element that is wrong."""
    whole = merge_config(chain)
    owners = {
        name: element for element in chain.upward for name in element.metadata.config or {} if name in whole
    }
    unlinked = MergedConfig(chain, whole, owners)
    references = set(_references(whole)) - CONTEXT
    _check_keys(unlinked, references)
    names = {name for name in references & whole.keys() if not name.startswith(PARAMETER_PREFIX)}
    values = _linked(unlinked, names) if names else whole
    return MergedConfig(chain, values, owners, {name: Uses.of(value) for name, value in values.items()})


def _check_keys(config: MergedConfig, references: set[str]) -> None:
    schema = config.chain.primitive.metadata.config_schema
    if schema is None or "properties" not in schema:
        return
    known = {*schema["properties"], PARAMS_ENV}
    for name in config.values:
        if name not in known and name not in references:
            raise config.refusal(
                name, f"expected only {', '.join(sorted(known))}, or what a text refers to, found {name!r}"
            )


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
    """What is put into other values in one round, as long as there is room."""

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
