"""Calls a function of a tool: `call_function.py NAMES TOOL PROJECT`, with the parameters on standard input.

NAMES are the functions to look for, with commas between them; the first one that the tool has is called.
`main` gets the parameters by their names, `execute` gets `(params, project_path)`. What it returns is written
as JSON to the descriptor that RYE_RESULT_FD names, else to standard output. What it raises ends the process
with a traceback that begins in the tool. The tool is run in RYE_WORKING_DIRECTORY, when that is set.

By hand: echo '{"name": "Ada"}' | python call_function.py execute greet.py /the/project
"""

import json
import os
import sys

# As in importlib.machinery, which takes a millisecond to import.
ModuleSpec, SourceFileLoader = type(sys.__spec__), type(__loader__)

SIGNATURES = {"main": "main(**parameters)", "execute": "execute(params, project_path)"}
STANDARD_OUTPUT = 1


def run(names: list[str], tool: str, project: str) -> int:
    """Call the tool's function; the exit code."""
    params = json.loads(sys.stdin.buffer.read() or b"{}")
    if directory := os.environ.get("RYE_WORKING_DIRECTORY"):
        os.chdir(directory)
    try:
        module = load(tool)
        name = next((each for each in names if callable(getattr(module, each, None))), None)
        if name is None:
            return fail(f"expected {' or '.join(SIGNATURES[each] for each in names)} in {tool}, found none")
        result = call(name, getattr(module, name), params, project)
    except Exception as exc:
        return fail_with(exc, tool)
    try:
        document = json.dumps(result, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as exc:
        return fail(f"expected a result that JSON can hold from {name} in {tool}, found none: {exc}")
    write(document)
    return 0


def load(tool: str) -> object:
    """The tool as a module of its own name, unless there is a module of that name already."""
    directory, file_name = os.path.split(tool)
    name = file_name.removesuffix(".py")
    if name in sys.modules:
        name = f"tool_{name}"
    if os.environ.get("RYE_CALL_FD"):
        sys.path.insert(1, os.path.join(sys.path[0], "calls"))
    sys.path[0] = directory  # so far the directory of this file, which is no business of a tool
    sys.argv[:] = [tool]
    loader = SourceFileLoader(name, tool)
    module = sys.modules[name] = type(sys)(name)
    module.__file__, module.__loader__ = tool, loader
    module.__spec__ = ModuleSpec(name, loader, origin=tool)
    exec(loader.get_code(name), module.__dict__)
    return module


def call(name: str, function: object, params: dict, project: str) -> object:
    """What the function returns. One that is not asynchronous does not pay for asyncio."""
    result = function(**params) if name == "main" else function(params, project)
    if not hasattr(result, "__await__"):
        return result
    import asyncio

    async def awaited() -> object:
        return await result

    return asyncio.run(awaited())


def write(document: bytes) -> None:
    """Hand the result over, apart from what the tool prints where that can be told apart."""
    sys.stdout.flush()
    descriptor = int(os.environ.get("RYE_RESULT_FD") or STANDARD_OUTPUT)
    with open(descriptor, "wb", closefd=False) as stream:
        stream.write(document + b"\n" if descriptor == STANDARD_OUTPUT else document)


def fail(sentence: str) -> int:
    """Say what is wrong; the exit code of a failure."""
    print(sentence, file=sys.stderr)
    return 1


def fail_with(exc: Exception, tool: str) -> int:
    """Show the traceback from the first frame in the tool: what is above that is how it was called."""
    frames = exc.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename != tool:
        frames = frames.tb_next
    leave_out_client(frames)
    sys.excepthook(type(exc), exc.with_traceback(frames), frames)
    return 1


def leave_out_client(frames) -> None:
    """End a traceback at the line of the tool that called another one, and not in our client."""
    client = os.path.join(os.path.dirname(__file__), "calls", "")
    while frames is not None and frames.tb_next is not None:
        if frames.tb_next.tb_frame.f_code.co_filename.startswith(client):
            frames.tb_next = None
        frames = frames.tb_next


if __name__ == "__main__":
    sys.exit(run(sys.argv[1].split(","), sys.argv[2], sys.argv[3]))
