"""The configuration of a chain, filled once, as the spec of its primitive.

`merged` makes one configuration of what the elements say; here one pass puts in the environment, the
context and the parameters, whose values are never looked at again. The rules are in
`docs/architecture/execution.md`.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from lilux import _templates
from lilux._dataclasses import dataclass
from lilux._process import DEFAULT_TIMEOUT_S as PROCESS_TIMEOUT_S
from lilux.primitives.errors import ConfigurationError
from lilux.primitives.subprocess import CallSpec, Halves, ProcessSpec, RuntimeSpec
from lilux.primitives.subprocess import render as render_process
from rye_mcp.errors import RyeError
from rye_mcp.executor.chain.builder import Chain, ChainElement
from rye_mcp.executor.configuration.filling import Filling, flag_arguments
from rye_mcp.executor.configuration.merged import (
    PARAMS_ENV,
    MergedConfig,
    Uses,
    arguments_before_call,
    merge_config,
    merged,
)
from rye_mcp.executor.configuration.parameters import Parameters
from rye_mcp.executor.environment.resolver import Environment, Paths
from rye_mcp.executor.environment.variables import holds_password, looks_secret
from rye_mcp.notices import Notice
from rye_mcp.trust.control_variables import chooses_code

if TYPE_CHECKING:
    from lilux.primitives.http_client import HttpSpec
    from rye_mcp.executor.chain.anchor import Anchor
    from rye_mcp.executor.chain.validator import ValidChain

__all__ = [
    "MAX_ARGUMENT_BYTES",
    "Built",
    "build_other",
    "build_process",
    "build_request",
    "check_argv",
    "check_secrets",
    "longest_run",
    "merge_config",
    "time_limit",
    "working_directory",
]

MAX_ARGUMENT_BYTES: Final = 100 << 10
"""How long one argument may be: 100 KiB. The system takes hardly more."""

MAX_VARIABLE_BYTES: Final = 64 << 10
MAX_VARIABLES_BYTES: Final = 512 << 10
"""How long one variable of `params_env` may be, and all of them together."""

MAX_ENV_CHARACTERS: Final = 2 << 20
"""How long all variables of `env` may be together. The system takes no more."""

_MANY_ATTEMPTS: Final = 100
_PASSED: Final = ("command", "args", "input_data", "shell", "max_output")
_TOLD: Final = frozenset(
    {"RYE_PROJECT_PATH", "RYE_TOOL_SOURCE", "RYE_RESULT_FD", "RYE_CALL_FD", "RYE_OUTPUT_DIR"}
)
_PREFIX: Final = re.compile(r"[A-Z][A-Z0-9_]{0,62}_", re.ASCII)
_VARIABLE: Final = re.compile(r"[A-Za-z0-9_]{1,128}", re.ASCII)
_SINKS: Final = "__sinks"
_SHOWN: Final = 5
_STDIN: Final = "a runtime that passes parameters on standard input takes them: python_function_runtime"

_NOT_THERE: Final = "expected secrets in env, headers, auth or input_data alone, found ${{{}}}"
_TAKES_SECRETS: Final = frozenset({"env", "headers", "auth", "input_data"})
_FIXED_ORIGIN: Final = re.compile(r"https?://[^\s/?#@${}\\%]+(?:[/?#]|\Z)", re.I)

Spec = TypeVar("Spec")


@dataclass(frozen=True, slots=True)
class Built(Generic[Spec]):
    """The spec for a primitive, and the notices about it."""

    spec: Spec
    notices: tuple[Notice, ...] = ()


def build_process(
    valid: ValidChain,
    parameters: Parameters,
    environment: Environment,
    paths: Paths,
    anchor: Anchor | None,
    *,
    timeout: float | None = None,
) -> Built[Halves]:
    """The process that a chain runs; `timeout` is the caller's, in seconds."""
    root = valid.verified.chain.root
    if root.metadata.is_primitive:
        spec = _direct_process(root, parameters, environment, paths, timeout)
        return Built(_halves(spec, environment, spec.env))
    filling = Filling.of(merged(valid.verified.chain), parameters, environment, paths)
    config = filling.config.values
    check_argv(filling)
    check_secrets(filling)
    variables, notices = _variables(filling)
    given = {name: config[name] for name in _PASSED if name in config}
    given["cwd"] = None
    given["timeout"] = time_limit(filling.config, PROCESS_TIMEOUT_S, timeout)
    with filling.blaming():
        spec = render_process(given, filling.data, env=environment.variables)
    _check_arguments(filling, spec)
    cwd = working_directory(filling, paths, anchor)
    notices = [*notices, *filling.unknown(*_PASSED, "cwd", "env")]
    args = [*spec.args, *flag_arguments(filling, MAX_ARGUMENT_BYTES)]
    prepared = 0 if config.get("shell") else arguments_before_call(filling.config.chain)
    halves = _halves(replace(spec, args=args, cwd=cwd), environment, variables, prepared)
    return Built(halves, tuple(notices))


def build_request(
    valid: ValidChain,
    parameters: Parameters,
    environment: Environment,
    paths: Paths,
    *,
    timeout: float | None = None,
) -> Built[HttpSpec]:
    """The request that a chain makes; `timeout` is the caller's, in seconds, for each attempt."""
    from lilux._http.spec import DEFAULT_TIMEOUT_S as REQUEST_TIMEOUT_S
    from lilux.primitives.http_client import render

    root = valid.verified.chain.root
    if root.metadata.is_primitive:
        return Built(_direct_request(root, parameters, environment, timeout))
    filling = Filling.of(merged(valid.verified.chain), parameters, environment, paths)
    config = {"mode": "sync", **filling.config.values}
    if config.pop("sinks", None):
        raise filling.config.refusal(
            "sinks", "expected none in a file: sinks are objects of a program, found some"
        )
    check_secrets(filling)
    config.pop(PARAMS_ENV, None)
    config["timeout"] = time_limit(filling.config, REQUEST_TIMEOUT_S, timeout)
    data = {name: value for name, value in filling.data.items() if name != _SINKS}
    with filling.blaming():
        spec = render(config, data, env=environment.variables)
    secrets = [text for text in map(_secret_text, _secrets(filling)) if text]
    return Built(replace(spec, secrets=(*spec.secrets, *secrets)), tuple(filling.unknown(*config)))


def build_other(
    valid: ValidChain, parameters: Parameters, environment: Environment, paths: Paths
) -> Built[Mapping[str, Any]]:
    """The configuration for a primitive of another package, filled."""
    root = valid.verified.chain.root
    if root.metadata.is_primitive:
        config, params = _direct(parameters)
        return Built(_templates.render_tree(config, environment.variables, params))
    filling = Filling.of(merged(valid.verified.chain), parameters, environment, paths)
    with filling.blaming():
        config = _templates.render_tree(filling.config.values, environment.variables, filling.data)
    return Built(config, tuple(filling.unknown(*filling.config.values)))


# --- the parts of a process ---


def _halves(
    spec: ProcessSpec, environment: Environment, variables: Mapping[str, str], prepared: int = 0
) -> Halves:
    """A process in its halves: its first `prepared` arguments, and what every call of its chain gets, are
    known before the call.
    """
    shared, own = environment.shared, variables
    if shared.keys() <= variables.keys():
        own = {name: text for name, text in variables.items() if shared.get(name) != text}
    else:
        shared = {}
    search_path = own.get("PATH", None if "PATH" in shared else os.defpath)
    runtime = RuntimeSpec(
        command=spec.command, args=spec.args[:prepared], env=shared, search_path=search_path
    )
    call = CallSpec(
        args=spec.args[prepared:],
        cwd=spec.cwd,
        env=own,
        input=spec.input,
        timeout=spec.timeout,
        max_output=spec.max_output,
        result_fd=True,
    )
    return Halves(runtime, call)


def check_argv(filling: Filling) -> None:
    """Require that no secret is in the arguments, which everybody on the machine can read."""
    uses = filling.config.uses_of("command", "args")
    if secret := filling.parameters_in(uses) & filling.parameters.secret:
        problem = "it is writeOnly, and would stand in the command line, which others can read"
        raise filling.wrong_parameters(secret, problem, _STDIN)
    for name in uses.variables:
        value = filling.environment.get(name)
        if value and (looks_secret(name) or holds_password(value)):
            key = "args" if name in filling.config.uses_of("args").variables else "command"
            problem = f"expected no secret in the command line, which others can read, found ${{{name}}}"
            raise filling.config.refusal(key, problem)


def check_secrets(filling: Filling) -> None:
    """A secret of the store goes into variables, headers and standard input alone.

    A header with one goes to the host that the file itself names, and to no other.
    """
    for key, uses in filling.config.uses.items():
        used = uses.variables & filling.secrets
        if used and key not in _TAKES_SECRETS:
            raise filling.config.refusal(key, _NOT_THERE.format(min(used)))
    url = filling.config.values.get("url")
    in_headers = filling.config.uses_of("headers", "auth").variables & filling.secrets
    if in_headers and not (isinstance(url, str) and _FIXED_ORIGIN.match(url)):
        problem = f"expected a host that stands there itself, as ${{{min(in_headers)}}} is sent to it"
        raise filling.config.refusal("url", f"{problem}, found one that is filled in")
    auth = filling.config.values.get("auth")
    named = Uses.of(auth.get("header") if isinstance(auth, Mapping) else None).variables & filling.secrets
    if named:
        raise filling.config.refusal("auth.header", _NOT_THERE.format(min(named)))


def _check_arguments(filling: Filling, spec: ProcessSpec) -> None:
    """There is a command, and no argument is longer than the system takes, or holds what ends it."""
    if not spec.command.strip():
        raise filling.config.refusal("command", _no_program(filling))
    shell = filling.config.values.get("shell")
    for text in (spec.command, *spec.args):
        if "\0" not in text and (len(text) <= MAX_ARGUMENT_BYTES // 4 or _size(text) <= MAX_ARGUMENT_BYTES):
            continue
        field = "command" if shell or text is spec.command else "args"
        names = filling.parameters_in(filling.config.uses_of("command", "args"))
        problem = (
            "expected no NUL in a command line, found one"
            if "\0" in text
            else f"expected at most {MAX_ARGUMENT_BYTES} bytes in one argument, found {_size(text)}"
        )
        if names:
            raise filling.wrong_parameters(names, problem, _STDIN)
        raise filling.config.refusal(field, problem)


def _no_program(filling: Filling) -> str:
    """There is nothing to run. The fault may be in a runtime whose author thinks that it has a command."""
    between = filling.config.chain.elements[1:-1]
    silent = [each.item_id for each in between if (each.metadata.config or {}).get("command") is None]
    also = f", and none in {', '.join(silent)}" if silent else ""
    return f"expected the program to run, found none{also}"


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogateescape"))


def working_directory(filling: Filling, paths: Paths, anchor: Anchor | None) -> str:
    """That of an active anchor, else that of the configuration, else the project, else the user's home."""
    here = paths.project or filling.environment.get("HOME") or paths.user_space.parent
    template = filling.config.values.get("cwd") if anchor is None or anchor.cwd is None else anchor.cwd
    if template is None:
        return str(here)
    if not isinstance(template, str):
        raise filling.config.refusal("cwd", f"expected text, found {type(template).__name__}")
    if used := Uses.of(template).variables & filling.secrets:
        raise filling.config.refusal("cwd", _NOT_THERE.format(min(used)))
    filled = filling.fill(
        "cwd", template, None if anchor is None or anchor.cwd is None else Uses.of(template)
    )
    return os.path.join(here, filled)  # noqa: PTH118 - it may be absolute


def time_limit(config: MergedConfig, usual: float, asked: float | None) -> float:
    """The time of the configuration, or what the caller asked for when that is less."""
    own = config.values.get("timeout", usual)
    if not _is_time(own):
        raise config.refusal("timeout", "expected seconds, more than 0, found something else")
    return _shorter(own, asked)


def longest_run(chain: Chain, asked: float | None) -> float:
    """How many seconds a run of a program or a request can take, by its configuration and its caller."""
    config = merged(chain)
    if not chain.primitive.item_id.endswith("/http_client"):
        return time_limit(config, PROCESS_TIMEOUT_S, asked)
    from lilux._http.retry import MAX_WAIT_S
    from lilux._http.spec import DEFAULT_TIMEOUT_S as REQUEST_TIMEOUT_S

    said = config.values.get("retry")
    attempts = said.get("max_attempts", 1) if isinstance(said, Mapping) else 1
    attempts = attempts if isinstance(attempts, int) else _MANY_ATTEMPTS  # a parameter says how many
    return attempts * (time_limit(config, REQUEST_TIMEOUT_S, asked) + MAX_WAIT_S) - MAX_WAIT_S


def _shorter(own: float, asked: float | None) -> float:
    if asked is None:
        return own
    if not _is_time(asked):
        raise RyeError(
            "invalid_parameters",
            "expected seconds, more than 0, as timeout, found something else",
            hint="leave timeout out, or give a number of seconds",
        )
    return min(own, asked)


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf


def _variables(filling: Filling) -> tuple[dict[str, str], list[Notice]]:
    """The environment, with `env` of the configuration and the parameters that `params_env` asks for."""
    variables = {**filling.environment, **dict(_own_variables(filling))}
    prefix = filling.config.values.get(PARAMS_ENV)
    notices = [] if prefix is None else list(_add_parameters(filling, prefix, variables))
    return variables, notices


def _own_variables(filling: Filling) -> Iterator[tuple[str, str]]:
    """Yield the variables that `env` of the configuration sets."""
    given = filling.config.values.get("env", {})
    if not isinstance(given, Mapping):
        raise filling.config.refusal("env", f"expected a mapping, found {type(given).__name__}")
    room = MAX_ENV_CHARACTERS
    for name, value in given.items():
        if name in _TOLD or not name or "=" in name or "\0" in name:
            raise filling.config.refusal(
                "env",
                f"expected names of variables other than {', '.join(sorted(_TOLD))}, found {name!r:.80}",
            )
        if isinstance(value, Mapping | list):
            raise filling.config.refusal(f"env.{name}", f"expected text, found {type(value).__name__}")
        text = value if isinstance(value, str) else _plain_text(value)
        filled = filling.fill(f"env.{name}", text)
        room -= len(filled)
        if room < 0:
            problem = f"expected at most {MAX_ENV_CHARACTERS} characters in all of it, found more"
            raise filling.refusal("env", problem)
        yield name, filled


def _add_parameters(filling: Filling, prefix: object, variables: dict[str, str]) -> Iterator[Notice]:
    """Plain parameters as variables; those that cannot be one are named."""
    if not isinstance(prefix, str) or not _PREFIX.fullmatch(prefix) or chooses_code(prefix):
        raise filling.config.refusal(
            PARAMS_ENV,
            f"expected a prefix such as PARAM_ (A-Z, 0-9, _, and _ at its end), found {prefix!r:.80}",
        )
    left_out, room = [], MAX_VARIABLES_BYTES
    for name, text in _plain_parameters(filling.parameters):
        variable, length = prefix + name, len(text.encode())
        can_be_named = _VARIABLE.fullmatch(name) and variable not in variables and not chooses_code(variable)
        if not can_be_named or length > min(room, MAX_VARIABLE_BYTES) or "\0" in text:
            left_out.append(name)
            continue
        variables[variable] = text
        room -= length
    if left_out:
        named = ", ".join(left_out[:_SHOWN])
        yield Notice("parameters_not_in_env", f"{named}: not passed as {prefix}…; params_json has them")


def _plain_parameters(parameters: Parameters) -> Iterator[tuple[str, str]]:
    """The declared parameters that are no secret and no structure, as text."""
    for name in sorted((parameters.declared & parameters.values.keys()) - parameters.secret):
        value = parameters.values[name]
        if not isinstance(value, dict | list):
            yield name, value if isinstance(value, str) else _plain_text(value)


def _plain_text(value: Any) -> str:
    return _templates.render("{value}", {}, {"value": value})


# --- what a request must not tell ---


def _secrets(filling: Filling) -> Iterator[Any]:
    pending = [filling.parameters.values.get(name) for name in filling.parameters.secret]
    while pending:
        value = pending.pop()
        if isinstance(value, Mapping):
            pending += value.values()
        elif isinstance(value, list):
            pending += value
        else:
            yield value


def _secret_text(value: Any) -> str:
    return "" if value is None or isinstance(value, bool) else str(value)


# --- a primitive by itself: its caller gives it its configuration ---


def _direct_process(
    root: ChainElement, parameters: Parameters, environment: Environment, paths: Paths, timeout: float | None
) -> ProcessSpec:
    config, params = _direct(parameters)
    here = str(paths.project or environment.variables.get("HOME") or paths.user_space.parent)
    given = {**config, "timeout": _shorter(config.get("timeout", PROCESS_TIMEOUT_S), timeout)}
    own = {name: text for name, text in (given.get("env") or {}).items() if name not in _TOLD}
    try:
        spec = render_process({**given, "env": own}, params, env=environment.variables)
    except ConfigurationError as exc:
        raise _wrong_config(root, exc) from exc
    cwd = os.path.join(here, spec.cwd) if spec.cwd else here  # noqa: PTH118 - it may be absolute
    return replace(spec, cwd=cwd)


def _direct_request(
    root: ChainElement, parameters: Parameters, environment: Environment, timeout: float | None
) -> HttpSpec:
    from lilux._http.spec import DEFAULT_TIMEOUT_S as REQUEST_TIMEOUT_S
    from lilux.primitives.http_client import render

    config, params = _direct(parameters)
    if config.pop("allow_private_hosts", False):
        why = "expected no allow_private_hosts in a direct call: only a signed tool may set it, found true"
        raise _wrong_config(root, ConfigurationError(why, "allow_private_hosts"))
    given = {
        "mode": "sync",
        **config,
        "timeout": _shorter(config.get("timeout", REQUEST_TIMEOUT_S), timeout),
    }
    given.pop("sinks", None)
    data = {name: value for name, value in params.items() if name != _SINKS}
    try:
        spec = render(given, data, env=environment.variables)
    except ConfigurationError as exc:
        raise _wrong_config(root, exc) from exc
    # The whole configuration is the caller's, so the host is checked like one that a parameter names.
    return replace(spec, host_from_parameter=True)


def _direct(parameters: Parameters) -> tuple[dict[str, Any], dict[str, Any]]:
    config = {name: value for name, value in parameters.values["config"].items() if value is not None}
    return config, parameters.values["params"]


def _wrong_config(root: ChainElement, exc: ConfigurationError) -> RyeError:
    place = f"/config/{exc.field}" if exc.field else "/config"
    return RyeError(
        "invalid_parameters",
        f"expected a configuration that {root.item_id} can carry out, found: {exc.message}",
        where=root.path,
        item_id=root.item_id,
        issues=[{"path": place, "message": exc.message}],
    )
