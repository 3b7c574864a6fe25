"""A program to run, fully resolved: a `ProcessSpec`, made from a configuration and parameters.

`render` fills the templates of a configuration; `request_of` turns a spec into what the supervisor is asked.
Both refuse what is malformed with a ConfigurationError that names the field, what was expected and what was
found; the value of an environment variable is never in a message. Nothing is started here.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, fields
from typing import Any, Final, NamedTuple, NoReturn

from lilux._calls import OnOutput, OnStarted
from lilux._dataclasses import dataclass
from lilux._policy import Policy
from lilux._protocol import DESCRIPTORS, OUTPUT_LIMITS, TIMEOUT_LIMIT_MS, RunRequest, Spool
from lilux._templates import render as fill
from lilux._templates import render_shell
from lilux.primitives.errors import ConfigurationError

__all__ = [
    "CallSpec",
    "Halves",
    "ProcessSpec",
    "RuntimeSpec",
    "absolute_path",
    "inherited_environment",
    "milliseconds",
    "process_id",
    "render",
    "request_of",
]

DEFAULT_TIMEOUT_S: Final = 300

ARGUMENTS_LIMIT: Final = 8 << 20
"""How many characters all arguments may have once they are filled; a system takes less."""

RESOLVED_ENVIRONMENT_SIZE: Final = 50
"""So many variables are a complete environment; fewer are added to the inherited one."""

CONFIG_KEYS: Final = frozenset(
    ["command", "args", "cwd", "input_data", "env", "timeout", "shell", "max_output"],
)
"""Every key that a configuration may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeSpec:
    """The half of a process that is known before its call: a program that can be prepared for any call.

    `command` is a path, or a name that is looked up on `search_path` (None: the PATH of the environment).
    `args` come before those of the call; `env` is its environment, which a call may add to.
    """

    command: str
    args: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    search_path: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSpec:
    """The half of a process that is its call.

    `args` and `env` are what the call adds to those of the runtime. `input` is its standard input, None for
    none. `timeout` is in seconds, None for no limit. Of each output stream `max_output` bytes are kept (None:
    1 MiB), what is more goes to `spool`, if there is one. With `result_fd` what the program writes to its
    descriptor 3 is captured too. With `digests` everything it writes is hashed, which takes longer than
    reading it. `on_output` gets what it writes as it comes, and is told how much was left out when that is
    too fast for it; with `whole_output` nothing is, and the program waits. `on_started` gets its pid
    and what is enforced. Neither is called within the first `quiet` seconds, and so never for a program that
    ends sooner. `policy` says what the program may do, None that nothing confines it. With `observe`
    it is told what the program and all that it starts name, but for files below the paths that stand there:
    for learning what it needs, because a program can deceive whoever looks on. `descriptors` are open ones of
    this process, by the number from 3 to 19 that each has in the program; they stay open here.
    """

    args: Sequence[str] = ()
    cwd: str | os.PathLike[str] | None = None
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    input: bytes | None = field(default=None, repr=False)
    timeout: float | None = DEFAULT_TIMEOUT_S
    max_output: int | None = None
    result_fd: bool = False
    digests: bool = False
    spool: Spool | None = None
    on_output: OnOutput | None = None
    whole_output: bool = False
    on_started: OnStarted | None = None
    quiet: float = 0.0
    policy: Policy | None = None
    observe: Sequence[str] | None = None
    descriptors: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSpec(CallSpec):
    """One program to run, whole: `args` are all of its arguments, and `env` is its exact environment.

    `command` and `search_path` are those of a `RuntimeSpec`, everything else is that of a `CallSpec`.
    """

    command: str
    search_path: str | None = None


class Halves(NamedTuple):
    """A process in its two halves."""

    runtime: RuntimeSpec
    call: CallSpec

    @property
    def env(self) -> dict[str, str]:
        """All variables of the process."""
        return {**self.runtime.env, **self.call.env}

    def whole(self, **own: Any) -> ProcessSpec:
        """The process, to be started for this call; `own` are other values of fields of the call."""
        runtime, call = self
        joined = {each.name: getattr(call, each.name) for each in fields(call)}
        joined["args"] = [*runtime.args, *call.args]
        joined["env"] = self.env
        return ProcessSpec(command=runtime.command, search_path=runtime.search_path, **{**joined, **own})


# --- from a configuration -------------------------------------------------------


def render(
    config: Mapping[str, Any],
    params: Mapping[str, Any] | None = None,
    *,
    env: Mapping[str, str] | None = None,
) -> ProcessSpec:
    """Fill the templates of a configuration; one without a command has the empty command.

    With `env`, the environment is exactly that and what the configuration adds, however little it is.
    """
    given = _configuration(config)
    params = _mapping("params", params)
    own = _mapping("env", given.get("env"))
    env = _environment(own) if env is None else _exactly(env, own)
    command, args = _text("command", given.get("command", "")), _texts("args", given.get("args", ()))
    shell = _flag("shell", given.get("shell", False))
    filled = render_shell(command, env, params) if shell else fill(command, env, params)
    arguments = list(_filled(args, env, params))
    if shell and filled.strip():
        filled, arguments = "/bin/sh", ["-c", filled, "sh", *arguments]
    return ProcessSpec(
        command=filled,
        args=arguments,
        cwd=fill(_text("cwd", given["cwd"]), env, params) if "cwd" in given else None,
        env=env,
        search_path=None if "PATH" in env else os.environ.get("PATH", os.defpath),
        input=_input(given.get("input_data"), env, params),
        timeout=_checked_timeout(given.get("timeout", DEFAULT_TIMEOUT_S)),
        max_output=None if "max_output" not in given else _size("max_output", given["max_output"]),
    )


def inherited_environment() -> dict[str, str]:
    """The environment of this process, but for names that are no text: no tool can be given those by name."""
    # `os.environ` decodes each name and value at each look, which takes longer than all the rest of a call.
    raw: Mapping[bytes, bytes] = getattr(os.environ, "_data", os.environb)
    before, decoded = _last_inherited[0]
    if raw != before:
        decoded = _decoded(raw)
        _last_inherited[0] = dict(raw), decoded
    return decoded.copy()


_last_inherited: Final[list[tuple[dict[bytes, bytes], dict[str, str]]]] = [({}, {})]
"""The environment when it was last looked at, as it was and decoded."""


def _decoded(raw: Mapping[bytes, bytes]) -> dict[str, str]:
    texts = {os.fsdecode(name): os.fsdecode(value) for name, value in raw.items()}
    return {name: value for name, value in texts.items() if name and (name.isascii() or _is_text(name))}


def added_to_inherited(name: str, env: Mapping[str, str] | None) -> dict[str, str]:
    """The environment of this process with these variables added."""
    return {**inherited_environment(), **_mapping(name, env)}


def _configuration(config: Mapping[str, Any]) -> dict[str, Any]:
    """The keys that are given a value, all of them known."""
    if not _is_mapping(config):
        _refuse("config", "an object", config)
    unknown = [str(key) for key in config if key not in CONFIG_KEYS]
    if unknown:
        expected = ", ".join(sorted(CONFIG_KEYS))
        found = ", ".join(unknown)
        raise ConfigurationError(
            f"expected only {expected} in a configuration, found {found}", field=unknown[0]
        )
    return {key: value for key, value in config.items() if value is not None}


def _environment(given: Mapping[str, Any]) -> Mapping[str, str]:
    _variables(given)
    if len(given) >= RESOLVED_ENVIRONMENT_SIZE:
        return given
    env = inherited_environment()
    env.update(given)
    return env


def _exactly(given: Mapping[str, Any], own: Mapping[str, Any]) -> Mapping[str, str]:
    env = {**_mapping("env", given), **own}
    _variables(env)
    return env


def _filled(args: list[str], env: Mapping[str, str], params: Mapping[str, Any]) -> Iterator[str]:
    room = ARGUMENTS_LIMIT
    for position, text in enumerate(args):
        filled = fill(text, env, params)
        room -= len(filled)
        if room < 0:
            what = f"expected at most {ARGUMENTS_LIMIT} characters in all arguments, found more"
            raise ConfigurationError(what, field=f"args[{position}]")
        yield filled


def _checked_timeout(seconds: float) -> float:
    milliseconds("timeout", seconds)
    return seconds


def _input(data: object, env: Mapping[str, str], params: Mapping[str, Any]) -> bytes | None:
    if data is None or isinstance(data, bytes):
        return data
    text = fill(_text("input_data", data), env, params)
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as exc:
        raise ConfigurationError(
            f"expected text that UTF-8 can hold as input_data: {exc}", "input_data"
        ) from exc


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


# --- to a request ---------------------------------------------------------------


def request_of(spec: ProcessSpec) -> RunRequest:
    """Return the request for the supervisor, every field checked."""
    env = _mapping("env", spec.env)
    _variables(env)
    return RunRequest(
        command=_text("command", spec.command),
        args=_texts("args", spec.args),
        cwd=_working_directory(spec.cwd),
        env=env if isinstance(env, dict) else dict(env),
        search_path=None if spec.search_path is None else _text("search_path", spec.search_path),
        timeout_ms=None if spec.timeout is None else milliseconds("timeout", spec.timeout),
        max_output=None if spec.max_output is None else _size("max_output", spec.max_output),
        result_fd=_flag("result_fd", spec.result_fd),
        digests=_flag("digests", spec.digests),
        quiet_ms=milliseconds("quiet", spec.quiet) if spec.quiet else None,
        spool=None if spec.spool is None else _spool(spec.spool),
        stream_whole=_flag("whole_output", spec.whole_output),
        policy=spec.policy,
        observe=None if spec.observe is None else _texts("observe", spec.observe),
        descriptors=_descriptors(spec) if spec.descriptors else {},
    )


def milliseconds(name: str, seconds: object, *, zero: bool = False) -> int:
    """Seconds as whole milliseconds, rounded up; zero only where it is allowed."""
    limit = TIMEOUT_LIMIT_MS // 1000
    expected = f"seconds from 0 to {limit}" if zero else f"seconds, more than 0 and at most {limit}"
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        _refuse(name, expected, seconds)
    if not (0 < seconds <= limit or (zero and seconds == 0)):  # which is False for NaN too
        _refuse(name, expected, seconds)
    return math.ceil(seconds * 1000)


def process_id(pid: object) -> int:
    """A whole number; whether it can be a process, the supervisor says."""
    if isinstance(pid, bool) or not isinstance(pid, int):
        _refuse("pid", "a whole number", pid)
    return pid


def _working_directory(given: str | os.PathLike[str] | None) -> str:
    found = absolute_path("cwd", given) or _here()
    if found is None:  # the supervisor would put the program somewhere else
        raise ConfigurationError(
            "expected a working directory as cwd, found none, and that of this process was removed",
            field="cwd",
        )
    return found


def absolute_path(name: str, path: str | os.PathLike[str] | None) -> str | None:
    """The same path from the root: the supervisor has its own idea of where relative ones begin."""
    return None if path is None else _absolute(name, path)


def _absolute(name: str, path: str | os.PathLike[str]) -> str:
    text: str = os.fspath(_path(name, path))
    if not text:
        raise ConfigurationError(f"expected a path as {name}, found an empty text", field=name)
    if os.path.isabs(text):  # noqa: PTH117 - in every run
        return text
    here = _here()
    if here is None:
        raise ConfigurationError(
            f"expected an absolute path as {name}, found a relative one in a directory that was removed",
            field=name,
        )
    return os.path.join(here, text)  # noqa: PTH118


def _here() -> str | None:
    """Where this process stands; None when that directory was removed."""
    try:
        return os.getcwd()  # noqa: PTH109
    except FileNotFoundError:
        return None


def _descriptors(spec: ProcessSpec) -> Mapping[int, int]:
    free = DESCRIPTORS[1:] if spec.result_fd else DESCRIPTORS
    for number, passed in _mapping("descriptors", spec.descriptors).items():
        if not isinstance(number, int) or number not in free:
            _refuse("descriptors", f"numbers from {free.start} to {free.stop - 1}", number)
        if not isinstance(passed, int) or passed < 0:
            _refuse(f"descriptors[{number}]", "an open descriptor", passed)
    return spec.descriptors


def _spool(spool: Spool) -> Spool:
    limit: Any = spool.max_bytes
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 0):
        _refuse("spool.max_bytes", "a whole number of bytes, 0 or more", limit)
    return Spool(dir=_absolute("spool.dir", spool.dir), max_bytes=limit)


def _size(name: str, value: object) -> int:
    low, high = OUTPUT_LIMITS
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        _refuse(name, f"a whole number of bytes from {low} to {high}", value)
    return value


# --- checks ---------------------------------------------------------------------


def _refuse(name: str, expected: str, found: object) -> NoReturn:
    plain = isinstance(found, float) or (isinstance(found, int) and found.bit_length() < 200)
    shown = repr(found) if plain else type(found).__name__
    raise ConfigurationError(f"expected {expected} as {name}, found {shown:.50}", field=name)


def _of(kind: type | tuple[type, ...], expected: str) -> Callable[[str, Any], Any]:
    def check(name: str, value: Any) -> Any:
        if not isinstance(value, kind):
            _refuse(name, expected, value)
        return value

    return check


_text = _of(str, "text")
_flag = _of(bool, "true or false")
_path = _of((str, os.PathLike), "a path")


def _texts(name: str, values: Any) -> list[str]:
    if not isinstance(values, list | tuple):
        _refuse(name, "a list of texts", values)
    for position, value in enumerate(values):
        if not isinstance(value, str):
            _refuse(f"{name}[{position}]", "text", value)
    return list(values)


def _mapping(name: str, value: Any) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not _is_mapping(value):
        _refuse(name, "an object", value)
    return value  # type: ignore[no-any-return]


def _is_mapping(value: object) -> bool:
    return type(value) is dict or isinstance(value, Mapping)  # which takes long, in every run


def _variables(env: Mapping[str, Any]) -> None:
    if {*map(type, env), *map(type, env.values())} <= {str}:  # in every run, often with a hundred of them
        return
    for name, value in env.items():
        if not isinstance(name, str):
            _refuse("env", "names that are text", name)
        if not isinstance(value, str):
            _refuse(f"env.{name}", "text", value)
