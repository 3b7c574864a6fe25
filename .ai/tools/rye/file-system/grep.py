"""Search the files of the project for a regular expression, or for a text.

Expressions are those of Python's `re`, and match within a line. What `.gitignore` leaves out, hidden names,
binary files and files above 64 MiB are passed over; of the last two, one that is named is refused. Answers are
sorted by path. ripgrep is used where it is there; the answers are the same without it.
"""

import os
import time

from answers import Refusal, answered
from candidates import Selection, matching_paths
from expressions import Expression
from places import MAX_BYTES, kind_of

__version__ = "1.0.0"
__tool_type__ = "python"
__tool_name__ = "grep"
__executor_id__ = "rye/core/runtimes/python_function_runtime"
__category__ = "rye/file-system"
__tags__ = ["search", "grep", "find", "regex", "text", "code", "ripgrep"]

PERMISSIONS = {"project": "read"}

CONFIG_SCHEMA = {
    "type": "object",
    "properties": {
        "pattern": {
            "type": "string",
            "minLength": 1,
            "maxLength": 4096,
            "description": "A regular expression as in Python; (?i) or ignore_case for any case.",
        },
        "path": {
            "type": "string",
            "minLength": 1,
            "maxLength": 4096,
            "default": ".",
            "description": "What to look in, a directory or a file: relative to the project, or absolute.",
        },
        "literal": {
            "type": "boolean",
            "default": False,
            "description": "The pattern is a text as it stands.",
        },
        "ignore_case": {"type": "boolean", "default": False, "description": "a and A are the same."},
        "globs": {
            "type": "array",
            "maxItems": 50,
            "items": {"type": "string", "minLength": 1, "maxLength": 1000},
            "default": [],
            "description": (
                "Only files that one of them matches: *.py at any depth, src/**/*.ts below `path`; "
                "with ! in front: leave out, such as !tests or !*.min.js."
            ),
        },
        "output": {
            "enum": ["lines", "files", "count"],
            "default": "lines",
            "description": "lines: what matches. files: which files. count: how many lines in each file.",
        },
        "context": {
            "type": "integer",
            "minimum": 0,
            "maximum": 20,
            "default": 0,
            "description": "How many lines before and after each match are shown.",
        },
        "limit": {
            "type": "integer",
            "minimum": 1,
            "maximum": 5000,
            "default": 100,
            "description": "How many lines, or files, at most.",
        },
        "hidden": {"type": "boolean", "default": False, "description": "Names that begin with a dot too."},
        "gitignore": {
            "type": "boolean",
            "default": True,
            "description": "Leave out what .gitignore does.",
        },
        "timeout": {
            "type": "number",
            "exclusiveMinimum": 0,
            "maximum": 120,
            "default": 30,
            "description": "Seconds until it gives up.",
        },
    },
    "required": ["pattern"],
    "additionalProperties": False,
}

OUTPUT_SCHEMA = {
    "type": "object",
    "properties": {
        "matches": {
            "type": "array",
            "description": "With output lines; paths are below the project.",
            "items": {
                "type": "object",
                "properties": {
                    "path": {"type": "string"},
                    "line": {"type": "integer"},
                    "text": {
                        "type": "string",
                        "description": "The line; of a long one what is around the match.",
                    },
                    "before": {"type": "array", "items": {"type": "string"}},
                    "after": {"type": "array", "items": {"type": "string"}},
                },
                "required": ["path", "line", "text"],
            },
        },
        "files": {"type": "array", "items": {"type": "string"}, "description": "With output files."},
        "counts": {
            "type": "array",
            "description": "With output count: how many lines match.",
            "items": {
                "type": "object",
                "properties": {"path": {"type": "string"}, "lines": {"type": "integer"}},
                "required": ["path", "lines"],
            },
        },
        "truncated": {"const": True, "description": "There only when there is more than was asked for."},
    },
}

# As the runtime says it, and -S: who looks for packages could have searched 500 files meanwhile.
CONFIG = {
    "args": ["-S", "-s", "-B", "{runtime_lib}/call_function.py", "execute", "{tool_path}", "{project_path}"],
    "timeout": 130,
    "max_output": 4194304,
}

ANNOTATIONS = {
    "title": "Search in files",
    "readOnlyHint": True,
    "destructiveHint": False,
    "idempotentHint": True,
    "openWorldHint": False,
}

ANCHOR = {"mode": "always", "env_paths": {"PYTHONPATH": {"prepend": ["{anchor_path}/lib"]}}}

EXAMPLES = [
    {
        "description": (
            "Where are functions defined in Python files? Which files mention this word? Where is a "
            "variable or class used? Find the line that contains an error message."
        ),
        "parameters": {"pattern": "^def \\w+", "globs": ["*.py"]},
        "files": {"src/a.py": "x = 1\ndef f(y):\n    return y\n", "b.txt": "def g\n"},
        "expect": {"data": {"matches": [{"path": "src/a.py", "line": 2, "text": "def f(y):"}]}},
    },
    {
        "description": (
            "Search the source code for a word, in capitals or not. Find all TODO comments. Look for a "
            "phrase inside all documents of a folder. How many times does a text occur?"
        ),
        "parameters": {"pattern": "TODO(", "literal": True, "ignore_case": True, "output": "files"},
        "files": {"a.py": "# todo(me): more\n", "b.py": "nothing\n"},
        "expect": {"data": {"files": ["a.py"]}},
    },
]


@answered
def execute(params, project):
    """Search, and answer in the form that was asked for."""
    deadline = time.monotonic() + params["timeout"]
    expression = Expression(params["pattern"], literal=params["literal"], ignore_case=params["ignore_case"])
    with project.find(params["path"]) as place:
        if kind_of(place.require()) == "directory":
            root, paths = directory_of(project, place, expression, params, deadline)
            above = place.relative
        else:
            os.close(place.open())
            root, paths = place.directory, [place.name]
            above = place.relative.rpartition("/")[0]
        from finders import FINDERS, text_in

        finder = FINDERS[params["output"]](expression, params, "" if above in (".", "") else f"{above}/")
        found, more = finder.found_in(root, paths, deadline)
        if not found and root == place.directory and text_in(root, place.name) is None:
            # That nothing was found in a file that was named and passed over would say something else.
            what = f"expected text of at most {MAX_BYTES} bytes, found something else: {place.shown}"
            raise Refusal(what, "search it with rye/bash/bash: grep -a")
    return {finder.NAME: found} | ({"truncated": True} if more else {})


def directory_of(project, place, expression, params, deadline):
    """The open directory, and which files in it are worth looking at."""
    selection = Selection(
        project, place, globs=params["globs"], hidden=params["hidden"], gitignore=params["gitignore"]
    )
    if problems := selection.problems():
        what = f"expected globs such as *.py or !tests, found {', '.join(map(repr, problems))}"
        raise Refusal(what, "a backslash takes its meaning from what follows it")
    place.require_readable()
    root = place.open_directory()

    def meanwhile():
        expression.prepare()
        import finders  # noqa: F401 - it takes as long as fifty files, and ripgrep is looking for those

        if not expression.is_plain:
            import signal  # noqa: F401 - as long again

    return root, matching_paths(root, expression, selection, deadline, params["limit"], meanwhile)
