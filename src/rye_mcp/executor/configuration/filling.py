"""The one pass that puts values into the templates of a configuration.

A value is put in as it is, and never looked at again. Errors name the element that has the template, or the
parameters that fill it. The rules are in `docs/architecture/execution.md`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from typing import Any, Final

from lilux import _templates
from lilux._dataclasses import dataclass
from lilux.primitives.errors import ConfigurationError
from rye_mcp.errors import RyeError
from rye_mcp.executor.configuration.merged import (
    ARGUMENTS,
    PARAMETER_PREFIX,
    MergedConfig,
    Uses,
    key_of,
    passed_elsewhere,
)
from rye_mcp.executor.configuration.parameters import Parameters, UnfilledError
from rye_mcp.executor.environment.resolver import Environment, Paths
from rye_mcp.metadata import Calling, Flag, Positional, read_calling
from rye_mcp.notices import Notice

__all__ = ["Filling", "flag_arguments"]

PARAMS_JSON: Final = "params_json"
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Filling:
    """The values for the templates of one call."""

    config: MergedConfig
    parameters: Parameters
    environment: Mapping[str, str] = field(repr=False)
    data: Mapping[str, Any] = field(repr=False)
    withheld: frozenset[str] = frozenset()
    secrets: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls, config: MergedConfig, parameters: Parameters, environment: Environment, paths: Paths
    ) -> Filling:
        """The values of one call."""
        declared: dict[str, Any] = dict.fromkeys(parameters.declared.difference(parameters.needs))
        declared.update((name, value) for name, value in parameters.values.items() if name in declared)
        data = {
            **declared,
            **{f"{PARAMETER_PREFIX}{name}": value for name, value in declared.items()},
            **paths.named(),
            "item_id": config.chain.root.item_id,
            PARAMS_JSON: parameters.json,
        }
        withheld = frozenset(environment.withheld)
        return cls(config, parameters, environment.variables, data, withheld, environment.secrets)

    def fill(self, field_name: str, template: str, uses: Uses | None = None) -> str:
        """One text, filled; without a NUL, which no path and no variable can hold."""
        with self.blaming(field_name, uses):
            text = _templates.render(template, self.environment, self.data)
        if "\0" in text:
            raise self.refusal(field_name, "expected no NUL, which cannot stand there, found one", uses)
        return text

    def parameters_in(self, uses: Uses) -> frozenset[str]:
        """The parameters that have a say in what templates ask for."""
        names = {name.removeprefix(PARAMETER_PREFIX) for name in uses.names}
        named = self.parameters.declared & names
        return named | self.parameters.values.keys() if PARAMS_JSON in uses.names else named

    def unknown(self, *keys: str) -> Iterator[Notice]:
        """A notice when something in braces is filled by nothing."""
        names = sorted(self.config.uses_of(*keys).names - self.data.keys() - self._needed)
        if names:
            shown = ", ".join(f"{{{name}}}" for name in names[:_SHOWN])
            more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
            yield Notice("unknown_placeholder", f"nothing fills {shown}{more}: it stays in the text as it is")

    @contextmanager
    def blaming(self, field_name: str | None = None, uses: Uses | None = None) -> Iterator[None]:
        """Turn what Lilux refuses into the error of the element, or of the parameters."""
        try:
            yield
        except ConfigurationError as exc:
            raise self.refusal(exc.field or field_name, exc.message, uses) from None

    def refusal(self, field_name: str | None, problem: str, uses: Uses | None = None) -> RyeError:
        """Return the error for a field: it names the parameters that fill it, else the element."""
        uses = uses or self.config.uses_of(key_of(field_name))
        names = self.parameters_in(uses)
        if self._needed and (field_name is None or not names.isdisjoint(self.parameters.needs)):
            return UnfilledError.of(self.config.chain.root, self.parameters.needs)
        if not names:
            return self.config.refusal(field_name, problem + self._withheld_of(uses))
        if names & self.parameters.secret:
            problem = "expected a value that fits there, found one that does not, and is not shown"
        return self.wrong_parameters(names, f"config.{field_name}: {problem}")

    @property
    def _needed(self) -> frozenset[str]:
        """The names, as templates have them, of what a call needs and nobody gave."""
        return frozenset(prefix + name for name in self.parameters.needs for prefix in ("", PARAMETER_PREFIX))

    def _withheld_of(self, uses: Uses) -> str:
        """Name the variables that a template asks for and this tool does not get."""
        names = sorted(uses.variables & self.withheld)
        return f" (withheld, since permissions.env does not name it: {', '.join(names)})" if names else ""

    def wrong_parameters(self, names: frozenset[str], problem: str, hint: str | None = None) -> RyeError:
        """The refusal of a call, for what it gives under these names."""
        root = self.config.chain.root
        shown = ", ".join(sorted(names)[:_SHOWN])
        return RyeError(
            "invalid_parameters",
            f"expected parameters that {root.item_id} can be given, found {shown}: {problem}",
            where=root.path,
            hint=hint,
            item_id=root.item_id,
            issues=[{"path": f"/{name}", "message": problem} for name in sorted(names)],
        )


# --- flags ---
# Turns parameters into the arguments of a program that takes flags (`arguments: flags`).
#
# No value can be taken for a flag: it is attached to its own, stands after `--`, does not begin with `-`, or
# the tool allows it there. Everything else is refused. The rules are in `docs/architecture/execution.md`.


_SEPARATOR: Final = "--"
_MAX_COUNT: Final = 100
"""How often a flag is repeated for a number."""


def flag_arguments(filling: Filling, max_bytes: int) -> tuple[str, ...]:
    """The arguments of one call; nothing for a tool that is called otherwise."""
    config = filling.config.values
    if ARGUMENTS not in config:
        return ()
    schema = filling.config.chain.root.metadata.config_schema
    elsewhere = passed_elsewhere(filling.config)
    calling, problems = read_calling(config, schema, elsewhere=elsewhere)
    for place, problem in problems:
        raise filling.config.refusal(place, problem)
    call = _Call(filling, calling, max_bytes)
    call.check(elsewhere)
    return tuple(call.arguments())


@dataclass(frozen=True, slots=True)
class _Call:
    """The arguments of a program for one call."""

    filling: Filling
    calling: Calling
    max_bytes: int

    def check(self, elsewhere: frozenset[str]) -> None:
        """Every parameter has a way to the program, and no secret takes this one."""
        places = frozenset(each.name for each in self.calling.positionals)
        passed = self.calling.flags.keys() | places
        parameters = self.filling.parameters
        given = frozenset(name for name, value in parameters.values.items() if value is not None)
        if lost := given - passed - elsewhere:
            problem = "expected a parameter of config_schema, which becomes a flag, found another one"
            raise self.filling.wrong_parameters(lost, problem)
        if secret := given & passed & parameters.secret:
            problem = "it is writeOnly, and would stand in the command line, which others can read"
            hint = "pass it in config.env or config.input_data of the tool, as {params.NAME}"
            raise self.filling.wrong_parameters(secret, problem, hint)

    def arguments(self) -> Iterator[str]:
        """The word that comes first, the flags, then what has a place."""
        if self.calling.subcommand is not None:
            yield self.calling.subcommand
        for name, flag in self.calling.flags.items():
            if (value := self._value(name)) is not None:
                yield from self._flag(name, flag, value)
        yield from self._placed()

    def _value(self, name: str) -> Any:
        """Return the value; a dry run shows a missing one as a template."""
        parameters = self.filling.parameters
        return f"{{{name}}}" if name in parameters.needs else parameters.values.get(name)

    def _flag(self, name: str, flag: Flag, value: Any) -> Iterator[str]:
        if flag.counts:
            yield from [flag.on] * self._count(name, value)
        elif flag.joined is None:
            if text := flag.on if value else flag.off:
                yield text
        elif flag.many:
            if values := [self._apart(name, each, flag.takes_any) for each in _elements(value)]:
                yield from (flag.on, *values)
        else:
            for each in _elements(value):
                yield from self._with_value(name, flag, each)

    def _with_value(self, name: str, flag: Flag, value: Any) -> Iterator[str]:
        if flag.joined == " ":
            yield from (flag.on, self._apart(name, value, flag.takes_any))
            return
        text, joined = self._text(name, value), flag.joined or ""
        # Attached to a short flag, nothing at all would make a program take the next argument.
        yield from (flag.on + joined + text,) if text or joined else (flag.on, text)

    def _placed(self) -> Iterator[str]:
        """Yield the positional arguments; `--` stands before them if one follows."""
        given = list(self._given())
        while given and given[-1].name == _SEPARATOR:
            given.pop()
        for each in given:
            if each.name == _SEPARATOR:
                yield _SEPARATOR
            else:
                for value in _elements(self._value(each.name)):
                    yield self._apart(each.name, value, each.takes_any)

    def _given(self) -> Iterator[Positional]:
        """Each `--`, and the places that are taken; RyeError for a gap before one of them."""
        missing: str | None = None
        for each in self.calling.positionals:
            if each.name == _SEPARATOR:
                yield each
            elif not self._has(each):
                missing = missing or each.name
            elif missing is None:
                yield each
            else:
                problem = f"expected {missing} too, which comes before it, found none"
                raise self.filling.wrong_parameters(frozenset({each.name}), problem)

    def _has(self, positional: Positional) -> bool:
        return self._value(positional.name) not in (None, [])

    def _apart(self, name: str, value: Any, takes_any: bool) -> str:
        """A value in an argument of its own."""
        text = self._text(name, value)
        if text.startswith("-") and not takes_any:
            problem = "expected no value that begins with -, which the program could take for a flag"
            raise self.filling.wrong_parameters(frozenset({name}), problem)
        return text

    def _text(self, name: str, value: Any) -> str:
        text = value if isinstance(value, str) else _json(value)
        if "\0" in text:
            problem = "expected no NUL in a command line, found one"
            raise self.filling.wrong_parameters(frozenset({name}), problem)
        if len(text.encode("utf-8", "surrogateescape")) > self.max_bytes:
            problem = f"expected at most {self.max_bytes} bytes in one argument, found more"
            raise self.filling.wrong_parameters(frozenset({name}), problem)
        return text

    def _count(self, name: str, value: Any) -> int:
        if isinstance(value, str) and name in self.filling.parameters.needs:
            return 1
        number = int(value) if isinstance(value, int | float) else -1
        if not 0 <= number <= _MAX_COUNT:
            problem = f"expected a number from 0 to {_MAX_COUNT}, found another value"
            raise self.filling.wrong_parameters(frozenset({name}), problem)
        return number


def _elements(value: Any) -> list[Any]:
    return [each for each in value if each is not None] if isinstance(value, list) else [value]


def _json(value: Any) -> str:
    if isinstance(value, Mapping | list | bool):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return str(value)
