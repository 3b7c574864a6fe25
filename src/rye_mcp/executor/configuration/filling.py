"""The one pass that puts values into the templates of a configuration.

A value is put in as it is, and never looked at again. Errors name the element that has the template, or the
parameters that fill it. The rules are in `docs/architecture/execution.md`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from typing import Any, Final

from lilux import _templates
from lilux._dataclasses import dataclass
from lilux.primitives.errors import ConfigurationError
from rye_mcp.errors import RyeError
from rye_mcp.executor.configuration.merged import PARAMETER_PREFIX, MergedConfig, Uses, key_of
from rye_mcp.executor.configuration.parameters import Parameters, UnfilledError
from rye_mcp.executor.environment.resolver import Environment, Paths
from rye_mcp.notices import Notice

__all__ = ["Filling"]

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
