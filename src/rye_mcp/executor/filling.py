"""The one pass that puts values into the templates of a configuration.

Rules:

- What fills a `{name}`: the context, then what the tool declares as parameter; `{params.name}` is always the
  parameter. A declared parameter that nobody gave is empty. Nothing else fills anything.
- `${VAR}` is a variable of the tool's environment, in which what is withheld is not.
- A value is put in as it is and never looked at again.
- Errors name the element that says the template, or blame the parameters where those had a say; a message
  that could hold a `writeOnly` value is not repeated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from lilux import _templates
from lilux.primitives.errors import ConfigurationError
from rye_mcp.errors import RyeError
from rye_mcp.executor.environment import Environment, Paths
from rye_mcp.executor.merged_config import PARAMETER_PREFIX, MergedConfig
from rye_mcp.executor.parameters import Parameters
from rye_mcp.notices import Notice

__all__ = ["Filling"]

PARAMS_JSON: Final = "params_json"
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Filling:
    """What the templates of one call are filled with."""

    config: MergedConfig
    parameters: Parameters
    environment: Mapping[str, str] = field(repr=False)
    data: Mapping[str, Any] = field(repr=False)

    @classmethod
    def of(
        cls, config: MergedConfig, parameters: Parameters, environment: Environment, paths: Paths
    ) -> Filling:
        """The values of one call."""
        declared: dict[str, Any] = dict.fromkeys(parameters.declared)
        declared.update((name, value) for name, value in parameters.values.items() if name in declared)
        data = {
            **declared,
            **{f"{PARAMETER_PREFIX}{name}": value for name, value in declared.items()},
            **paths.named(),
            "item_id": config.chain.root.item_id,
            PARAMS_JSON: parameters.json,
        }
        return cls(config, parameters, environment.variables, data)

    def fill(self, field_name: str, template: str) -> str:
        """One text, filled; without a NUL, which no path and no variable can hold."""
        with self.blaming(field_name):
            text = _templates.render(template, self.environment, self.data)
        if "\0" in text:
            raise self.refusal(
                field_name, template, "expected no NUL, which cannot be passed on here, found one"
            )
        return text

    def tree(self, value: Any) -> Any:
        """A structure, filled; a text that is nothing but one `{name}` keeps the type of its value."""
        with self.blaming(None):
            return _templates.render_tree(value, self.environment, self.data)

    def parameters_in(self, *templates: Any) -> frozenset[str]:
        """The parameters that have a say in templates."""
        names: set[str] = set()
        for placeholder in _placeholders(templates):
            if isinstance(placeholder, _templates.Parameter):
                if placeholder.name == PARAMS_JSON:
                    names.update(self.parameters.values)
                elif (name := placeholder.name.removeprefix(PARAMETER_PREFIX)) in self.parameters.declared:
                    names.add(name)
        return frozenset(names)

    def variables_in(self, *templates: Any) -> frozenset[str]:
        """The variables of the environment that have a say in templates, and are there."""
        return frozenset(
            each.name
            for each in _placeholders(templates)
            if isinstance(each, _templates.EnvironmentReference) and self.environment.get(each.name)
        )

    def unknown(self, *templates: Any) -> Iterator[Notice]:
        """A notice when something in braces is filled by nothing."""
        names = sorted(
            {
                each.name
                for each in _placeholders(templates)
                if isinstance(each, _templates.Parameter) and each.name not in self.data
            }
        )
        if names:
            shown = ", ".join(f"{{{name}}}" for name in names[:_SHOWN])
            more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
            root = self.config.chain.root.item_id
            yield Notice(
                "unknown_placeholder",
                f"nothing fills {shown}{more}, which stay as they are: {root} declares none",
            )

    @contextmanager
    def blaming(self, field_name: str | None) -> Iterator[None]:
        """Turn what Lilux refuses into the error of the element, or of the parameters."""
        try:
            yield
        except ConfigurationError as exc:
            found = exc.field or field_name
            key = (found or "").partition(".")[0].partition("[")[0]
            raise self.refusal(found, self.config.values.get(key, ""), exc.message) from None

    def refusal(self, field_name: str | None, template: Any, problem: str) -> RyeError:
        """What is wrong with a field: the parameters where they fill it, else the element."""
        names = self.parameters_in(template)
        if not names:
            return self.config.refusal(field_name, problem)
        if names & self.parameters.secret:
            problem = "expected a value that fits there, found one that does not, and is not shown"
        return self.wrong_parameters(names, f"config.{field_name}: {problem}")

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


def _placeholders(value: Any) -> Iterator[_templates.Placeholder]:
    if isinstance(value, str):
        yield from _templates.placeholders(value)
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _placeholders(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _placeholders(item)
