"""What a waiting Python interpreter does: it reads its call, becomes what that says, and runs the script.

This text is given to interpreters of tools, of any version from 3.8 on, and imports nothing of this package.
From its call on everything is as if the interpreter had been started as `python SCRIPT ARGUMENT…`.
"""

from __future__ import annotations

import builtins
import json
import os
import sys
import time

if sys.argv[2:] == ["typed"]:  # never: what the annotations name takes long to import
    import types
    from typing import Any

CALL = 20
"""Where a call is read."""


def text_of(value: str | dict[str, str]) -> str:
    """A text of a call; one that is no UTF-8 travels in base64."""
    if isinstance(value, str):
        return value
    import binascii

    return os.fsdecode(binascii.a2b_base64(value["b64"]))


def read_call() -> dict[str, Any]:
    """The call, once it has come; without one there is nothing to do."""
    pieces = []
    while True:
        piece = os.read(CALL, 1 << 16)
        if not piece:
            break
        pieces.append(piece)
    os.close(CALL)
    if not pieces:
        os._exit(0)
    call: dict[str, Any] = json.loads(b"".join(pieces))
    return call


def take_on(call: dict[str, Any]) -> None:
    """Become the process of the call: its directory, its environment, its arguments."""
    env = {name: text_of(value) for name, value in call["env"].items()}
    if not call["stdin"]:
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)
    set_environment({**GIVEN, **env})
    time.tzset()
    if "LC_ALL" in env or "LC_CTYPE" in env or "LANG" in env:
        set_locale()
    if call["cwd"] is not None:
        enter(text_of(call["cwd"]))
    arguments = [text_of(each) for each in call["args"]]
    options = sys.orig_argv[1 : sys.orig_argv.index("-c")] if hasattr(sys, "orig_argv") else []
    if hasattr(sys, "orig_argv"):
        sys.orig_argv[:] = [sys.orig_argv[0], *options, *arguments]
    sys.argv[:] = arguments
    find_modules(env, arguments[0])


def set_environment(env: dict[str, str]) -> None:
    """Exactly these variables, and the locale that an interpreter chooses where it finds none."""
    os.environ.clear()
    for name in sorted(env, key=os.fsencode):
        os.environ[name] = env[name]
    found = env.get("LC_ALL") or env.get("LC_CTYPE") or env.get("LANG") or "C"
    if COERCED is not None and found in ("C", "POSIX") and not env.get("LC_ALL"):
        os.environ["LC_CTYPE"] = COERCED


def environment() -> dict[str, str]:
    """The variables that this process was started with."""
    with open("/proc/self/environ", "rb") as file:
        pairs = [os.fsdecode(each).partition("=") for each in file.read().split(b"\0") if each]
    return {name: value for name, _, value in pairs}


def set_locale() -> None:
    """As an interpreter does when it starts."""
    import _locale

    try:
        _locale.setlocale(_locale.LC_CTYPE, "")
    except Exception:  # locale.Error; as in an interpreter, the locale stays what it is
        return


def enter(directory: str) -> None:
    """Change to the directory of the call."""
    try:
        os.chdir(directory)
    except OSError as exc:
        sys.stderr.write(f"lilux: cannot change to the working directory: {exc}\n")
        sys.exit(1)


def find_modules(env: dict[str, str], script: str) -> None:
    """Where modules are looked for: in the script's directory, on PYTHONPATH, and where they were before."""
    isolated = getattr(sys.flags, "safe_path", False) or sys.flags.isolated
    if sys.path[:1] == [""]:
        del sys.path[0]
    own = "" if sys.flags.ignore_environment else env.get("PYTHONPATH", "")
    entries = [os.path.abspath(entry) for entry in own.split(os.pathsep)] if own else []
    new = [entry for entry in dict.fromkeys(entries) if entry not in sys.path]
    sys.path[:0] = new if isolated else [os.path.dirname(os.path.realpath(script)), *new]


def code_of(script: str) -> types.CodeType:
    """The code of a script."""
    try:
        with open(script, "rb") as file:
            source = file.read()
    except OSError as exc:
        sys.stderr.write(
            f"{sys.executable}: can't open file {script!r}: [Errno {exc.errno}] {exc.strerror}\n"
        )
        sys.exit(2)
    return compile(source, script, "exec", dont_inherit=True)


def run(script: str) -> None:
    """Run the script as `__main__`; an exception ends in its traceback, which begins in the script."""
    import signal

    loader = sys.modules["_frozen_importlib_external"].SourceFileLoader
    names = sys.modules["__main__"].__dict__
    names.clear()
    names.update(
        __name__="__main__",
        __doc__=None,
        __package__=None,
        __loader__=loader("__main__", script),
        __spec__=None,
        __builtins__=builtins,
        __file__=script,
        __cached__=None,
    )
    if sys.version_info < (3, 14):
        names["__annotations__"] = {}
    try:
        exec(code_of(script), names)
    except SystemExit:
        raise
    except BaseException as exc:
        trace = exc.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename == "<lilux>":
            trace = trace.tb_next
        sys.excepthook(type(exc), exc.with_traceback(trace), trace)
        if isinstance(exc, KeyboardInterrupt):
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
        sys.exit(1)


GIVEN = environment()
COERCED = None if "LC_CTYPE" in GIVEN else os.environ.get("LC_CTYPE")

if sys.argv[2:] == ["call"]:
    call = read_call()
    take_on(call)
    run(sys.argv[0])
