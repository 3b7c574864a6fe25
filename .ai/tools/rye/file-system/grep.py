"""Search the files of the project for a regular expression, or for a text.

Expressions are those of Python's `re`, and match within a line. What `.gitignore` leaves out, hidden names,
binary files and files above 64 MiB are passed over; of the last two, one that is named is refused. Answers are
sorted by path. ripgrep is used where it is there; the answers are the same without it.
"""

import os

from answers import Refusal, answered, shown
from candidates import Files, Selection, matching_paths
from children import results_of
from contents import MAX_BYTES
from expressions import Expression, text_of
from places import kind_of
from trees import deadline_in

__version__ = "1.0.0"
__tool_type__ = "python"
__tool_name__ = "grep"
__executor_id__ = "rye/core/runtimes/python_function_runtime"
__category__ = "rye/file-system"
__tags__ = ["search", "grep", "find", "regex", "text", "code", "ripgrep"]

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
        "description": "Where functions are defined in Python files.",
        "parameters": {"pattern": "^def \\w+", "globs": ["*.py"]},
        "files": {"src/a.py": "x = 1\ndef f(y):\n    return y\n", "b.txt": "def g\n"},
        "expect": {"data": {"matches": [{"path": "src/a.py", "line": 2, "text": "def f(y):"}]}},
    },
    {
        "description": "Which files hold a text, whatever its case.",
        "parameters": {"pattern": "TODO(", "literal": True, "ignore_case": True, "output": "files"},
        "files": {"a.py": "# todo(me): more\n", "b.py": "nothing\n"},
        "expect": {"data": {"files": ["a.py"]}},
    },
]

MAX_LINE_CHARACTERS = 400
"""How much of a line is shown."""

BEFORE_MATCH_CHARACTERS = 100
MAX_ANSWER_CHARACTERS = 256 * 1024
"""How much all lines together may be."""


@answered
def execute(params, project):
    """Search, and answer in the form that was asked for."""
    deadline = deadline_in(params["timeout"])
    expression = Expression(params["pattern"], literal=params["literal"], ignore_case=params["ignore_case"])
    with project.find(params["path"]) as place:
        if kind_of(place.require()) == "directory":
            root, paths = directory_of(project, place, expression, params, deadline)
        else:
            os.close(place.open())
            root, paths = place.directory, [place.name]
        prefix = below_project(place, is_file=root == place.directory)
        finder = FINDERS[params["output"]](expression, params, prefix)
        if expression.is_plain:
            found, more = finder.found(Files(root), paths)
        else:
            [(found, more)] = results_of([lambda: finder.found(Files(root), paths)], deadline)
        if not found and root == place.directory:
            require_text(Files(root).read(place.name), place)
    return {finder.NAME: found} | ({"truncated": True} if more else {})


def require_text(content, place):
    """Refuse a file that was named and passed over: that nothing was found there would say something else."""
    if content is None or text_of(content) is None:
        what = f"expected text of at most {MAX_BYTES} bytes, found something else: {place.shown}"
        raise Refusal(what, "search it with rye/bash/bash: grep -a")


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
    return root, matching_paths(root, expression, selection, deadline, params["limit"])


def below_project(place, *, is_file):
    """What comes before a path below the place."""
    relative = place.relative.rpartition("/")[0] if is_file else place.relative
    return "" if relative in (".", "") else f"{relative}/"


class Finder:
    """Looks for matches in files, one after the other, up to the limit."""

    NAME = ""

    def __init__(self, expression, params, prefix):
        self.expression, self.prefix = expression, prefix
        self.limit, self.context = params["limit"], params["context"]

    def found(self, files, paths):
        """What was found, and whether there is more."""
        found = []
        for path in paths:
            content = files.read(path)
            decoded = None if content is None else text_of(content)
            if decoded is None:
                continue
            for each in self.each(shown(self.prefix + path), *decoded):
                if len(found) == self.limit or not self.has_room(each):
                    return found, True
                found.append(each)
        return found, False

    def has_room(self, each):
        """Whether one more can be answered."""
        return True

    def each(self, path, text, is_valid):
        """What is to be answered of one file."""
        raise NotImplementedError


class Lines(Finder):
    """The lines that match."""

    NAME = "matches"

    def __init__(self, expression, params, prefix):
        super().__init__(expression, params, prefix)
        self._room = MAX_ANSWER_CHARACTERS

    def has_room(self, each):
        self._room -= len(each["text"]) + sum(map(len, (*each.get("before", ()), *each.get("after", ()))))
        return self._room >= 0

    def each(self, path, text, is_valid):
        for number, begin, end, at in self.expression.lines(text, is_valid):
            match = {"path": path, "line": number, "text": cut(text[begin:end], at - begin)}
            if self.context:
                match["before"] = before(text, begin, self.context)
                match["after"] = after(text, end, self.context)
            yield match


class Names(Finder):
    """The files."""

    NAME = "files"

    def each(self, path, text, is_valid):
        for _ in self.expression.lines(text, is_valid):
            yield path
            return


class Counts(Finder):
    """How many lines match in each file."""

    NAME = "counts"

    def each(self, path, text, is_valid):
        lines = sum(1 for _ in self.expression.lines(text, is_valid))
        if lines:
            yield {"path": path, "lines": lines}


FINDERS = {"lines": Lines, "files": Names, "count": Counts}


def before(text, begin, count):
    """The lines before a line."""
    lines = []
    while begin > 0 and len(lines) < count:
        end, begin = begin - 1, text.rfind("\n", 0, begin - 1) + 1
        lines.append(cut(text[begin:end], 0))
    return lines[::-1]


def after(text, end, count):
    """The lines behind a line."""
    lines = []
    while end + 1 < len(text) and len(lines) < count:
        begin = end + 1
        end = text.find("\n", begin)
        end = len(text) if end < 0 else end
        lines.append(cut(text[begin:end], 0))
    return lines


def cut(line, at):
    """A line as it is shown; of a long one what is around the match."""
    line = line.removesuffix("\r")
    if len(line) > MAX_LINE_CHARACTERS:
        begin = max(0, min(at - BEFORE_MATCH_CHARACTERS, len(line) - MAX_LINE_CHARACTERS))
        end = begin + MAX_LINE_CHARACTERS
        line = f"{'…' if begin else ''}{line[begin:end]}{'…' if end < len(line) else ''}"
    if line.isascii():
        return line
    return line.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
