"""Run a program that you write: Python that computes and calls tools, so that only its result comes back.

The program can do nothing else: it has no network, no files but a private directory, and no secrets. calls
names the tools that it may call, by id or as directory/*. Inside, call(id, name=value) returns the data of a
tool, search(words) and describe(id) say what there is, and tools.demo_greet(name="Ada") is call("demo/greet",
name="Ada"). input is the parameter of that name. The result is the value of the last expression, or of the
variable result. With stubs, nothing runs: the answer has typed stubs of what the program may call.
"""

import ast
import keyword
import linecache
import os
import re
import sys

__version__ = "1.0.0"
__tool_type__ = "python"
__tool_name__ = "run"
__executor_id__ = "rye/core/runtimes/python_function_runtime"
__category__ = "rye/code"
__runs_given_code__ = True
__tags__ = ["code", "program", "python", "calls", "join", "batch"]

# What a run may call is what its caller names in calls, and nothing of this list.
PERMISSIONS = {"require": "walls", "calls": ["rye/*"]}
LIMITS = {"calls": 500}

CONFIG_SCHEMA = {
    "type": "object",
    "properties": {
        "source": {
            "type": "string",
            "maxLength": 65536,
            "description": "The program, in Python. await works at its top level, too.",
        },
        "calls": {
            "type": "array",
            "items": {
                "type": "string",
                "maxLength": 300,
                "pattern": "^[A-Za-z0-9_][A-Za-z0-9_./-]*(?:/\\*)?$",
            },
            "maxItems": 100,
            "default": [],
            "description": "The tools that it may call: ids, or directory/*.",
        },
        "input": {"description": "What the program finds as input."},
        "stubs": {
            "type": "boolean",
            "default": False,
            "description": "Return typed stubs of what it may call, and run nothing.",
        },
    },
    "required": ["source"],
    "additionalProperties": False,
}

CONFIG = {"max_output": 4194304}

EXAMPLES = [
    {
        "description": (
            "Compute something; the last expression is the result. Call several tools from one "
            "program, and get only the final result. Filter or join the results of many tool calls in "
            "a loop. Which tools can a program call, and with which types?"
        ),
        "parameters": {"source": "total = sum(input)\n{'total': total}", "input": [1, 2, 3]},
        "expect": {"code": "code_switched_off"},
    },
]

NAME = "<program>"
TYPES = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "array": "list",
    "object": "dict",
    "null": "None",
}


def execute(params, project_path):
    """The result of the program, or the stubs of what it may call."""
    if params["stubs"]:
        return "\n\n".join(map(stub, named(params["calls"])))
    source = params["source"]
    names = {"__name__": "__main__", "input": params.get("input"), **clients(params["calls"])}
    try:
        return ran(source, names)
    except Exception as exc:
        linecache.cache[NAME] = (len(source), None, source.splitlines(True), NAME)
        show(exc)
        raise SystemExit(1) from None


def ran(source, names):
    """Run it to its end."""
    tree = ast.parse(source, NAME)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    if last is not None:
        value = ast.Assign([ast.Name("result", ast.Store())], last.value)
        tree.body.append(ast.fix_missing_locations(ast.copy_location(value, last)))
    code = compile(tree, NAME, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    waiting = eval(code, names)
    if waiting is not None:
        import asyncio

        asyncio.run(finished(waiting))
    return names.get("result")


async def finished(waiting):
    """Run a program that awaits."""
    await waiting


def show(error):
    """Print the traceback from the program on, without the client in which a call was refused."""
    import traceback

    client = os.path.dirname(os.path.realpath(sys.modules["rye"].__file__)) if "rye" in sys.modules else None
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != NAME:
        trace = trace.tb_next
    frames = trace
    while frames is not None and frames.tb_next is not None:
        if client and os.path.realpath(frames.tb_next.tb_frame.f_code.co_filename).startswith(client):
            frames.tb_next = None
        frames = frames.tb_next
    traceback.print_exception(type(error), error, trace)


def clients(calls):
    """What a program that may call finds under its names."""
    if not os.environ.get("RYE_CALL_FD"):
        return {}
    import rye

    found = {name: getattr(rye, name) for name in ("call", "describe", "search", "CallError")}
    return {**found, "tools": Tools(calls)}


def python_name(item_id):
    """What a tool is called in Python."""
    name = re.sub(r"\W", "_", item_id)
    return f"_{name}" if name[0].isdigit() or keyword.iskeyword(name) else name


class Tools:
    """The tools that are named by their ids, as functions."""

    def __init__(self, calls):
        self._ids = {python_name(each): each for each in calls if not each.endswith("/*")}

    def __dir__(self):
        return sorted(self._ids)

    def __getattr__(self, name):
        if name not in self.__dict__.get("_ids", {}):
            raise AttributeError(f"expected one of {', '.join(self._ids) or 'no tool'}, found {name}")
        import functools

        import rye

        return functools.partial(rye.call, self._ids[name])


def named(calls):
    """The ids of all tools that may be called, as far as they are found."""
    import rye

    ids = {each for each in calls if not each.endswith("/*")}
    if len(ids) < len(calls):
        ids |= {each["id"] for each in rye.search("", limit=100)}
    return sorted(ids)


def stub(item_id):
    """What a tool is as a function of Python."""
    import rye

    found = rye.describe(item_id)
    schema = found.get("config_schema") or {}
    properties, required = schema.get("properties") or {}, schema.get("required") or []
    ordered = sorted(properties.items(), key=lambda pair: pair[0] not in required)
    arguments = ", ".join(argument(name, each, name in required) for name, each in ordered)
    returns = typed(found.get("output_schema") or {})
    words = " ".join(str(found.get("description") or "").split()).replace('"""', "'''")
    lines = [f"def {python_name(item_id)}({'*, ' if arguments else ''}{arguments}) -> {returns}:"]
    lines += [f'    """{words}', "", f'    call("{item_id}", …)']
    lines += [f"    {name}: {text}" for name, each in ordered if (text := described(each))]
    return "\n".join([*lines, '    """'])


def argument(name, schema, is_required):
    """A parameter as Python writes it."""
    kind = typed(schema)
    has_default = isinstance(schema, dict) and "default" in schema
    default = repr(schema["default"]) if has_default else "..."
    return f"{name}: {kind}" if is_required else f"{name}: {kind} = {default}"


def typed(schema):
    """The type that a schema says."""
    if not isinstance(schema, dict):
        return "Any"
    if isinstance(schema.get("enum"), list):
        return f"Literal[{', '.join(map(repr, schema['enum']))}]"
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    found = " | ".join(TYPES.get(each, "Any") for each in kinds) or "Any"
    if found == "list" and isinstance(schema.get("items"), dict):
        return f"list[{typed(schema['items'])}]"
    return found


def described(schema):
    """What a schema says about its value, on one line."""
    text = schema.get("description") if isinstance(schema, dict) else None
    return " ".join(str(text).split()) if text else ""
