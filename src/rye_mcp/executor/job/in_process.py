"""Primitives that live in this process and make their own job of a call.

Such a primitive gets the filled configuration of the chain and the parameters apart from each other. The
rules are in `docs/architecture/execution.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

from lilux import _templates
from lilux._dataclasses import dataclass
from rye_mcp.errors import RyeError
from rye_mcp.executor.configuration.builder import (
    Built,
    check_argv,
    check_secrets,
    time_limit,
    working_directory,
)
from rye_mcp.executor.configuration.filling import Filling
from rye_mcp.executor.configuration.merged import merged
from rye_mcp.executor.configuration.parameters import Parameters
from rye_mcp.executor.environment.resolver import Environment, Paths

if TYPE_CHECKING:
    from rye_mcp.executor.chain.builder import ChainElement
    from rye_mcp.executor.chain.validator import ValidChain
    from rye_mcp.executor.job.confinement import Bounds
    from rye_mcp.executor.job.jobs import Job

__all__ = ["InProcessCall", "InProcessPrimitive", "build_in_process"]

DEFAULT_TIMEOUT_S: Final = 60
_NOBODY: Final = Parameters({}, "{}")


@dataclass(frozen=True, slots=True)
class InProcessCall:
    """One call of `tool`. `config` is filled; `cwd` is where a program would start, `timeout` in seconds.

    `environment` is what a program of the tool would get, `withheld` what the server has besides. `bounds`
    confine such a program. `tree` is the key of the outermost program, if one is above the call.
    """

    tool: ChainElement
    config: Mapping[str, Any] = field(repr=False)
    arguments: Mapping[str, Any] = field(repr=False)
    cwd: str
    timeout: float
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    withheld: frozenset[str] = frozenset()
    bounds: Bounds | None = None
    tree: str | None = None


@runtime_checkable
class InProcessPrimitive(Protocol):
    """A primitive that makes a job of a call."""

    def job(self, call: InProcessCall) -> Job:
        """Return the job; RyeError when the tool asks for the impossible."""
        ...


def build_in_process(
    valid: ValidChain,
    parameters: Parameters,
    environment: Environment,
    paths: Paths,
    *,
    timeout: float | None = None,
) -> Built[InProcessCall]:
    """The call of a chain; `timeout` is the caller's, in seconds."""
    root = valid.verified.chain.root
    if root.metadata.is_primitive:
        what = f"expected a tool that says what {root.item_id} is to do, found the primitive itself"
        raise RyeError("not_runnable", what, where=root.path, item_id=root.item_id)
    filling = Filling.of(merged(valid.verified.chain), _NOBODY, environment, paths)
    check_argv(filling)
    check_secrets(filling)
    seconds = time_limit(filling.config, DEFAULT_TIMEOUT_S, timeout)
    values = {name: value for name, value in filling.config.values.items() if name not in ("cwd", "timeout")}
    literals = {name: values.pop(name) for name in filling.config.literals}
    with filling.blaming():
        config = {**_templates.render_tree(values, filling.environment, filling.data), **literals}
    cwd = working_directory(filling, paths, None)
    # In a dry run, the name of a missing parameter stands in its place.
    arguments = {**parameters.values, **{name: f"{{{name}}}" for name in parameters.needs}}
    call = InProcessCall(root, config, arguments, cwd, seconds, filling.environment, filling.withheld)
    return Built(call, tuple(filling.unknown(*values)))
