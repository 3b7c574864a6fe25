"""Find files of the project by a pattern of their paths, such as `src/**/*.py`.

`**` is any number of directories, `*` and `?` are within a name, `[a-z]` is one character, `{a,b}` is either.
What `.gitignore` leaves out, and hidden names, are passed over unless asked for. Links are not followed.
"""

from answers import Refusal, answered, shown
from patterns import BadPattern, path_pattern
from trees import Walk, deadline_in

__version__ = "1.0.0"
__tool_type__ = "python"
__tool_name__ = "glob"
__executor_id__ = "rye/core/runtimes/python_function_runtime"
__category__ = "rye/file-system"
__tags__ = ["files", "find", "search", "pattern", "wildcard", "names"]

PERMISSIONS = {"project": "read"}

CONFIG_SCHEMA = {
    "type": "object",
    "properties": {
        "pattern": {
            "type": "string",
            "minLength": 1,
            "maxLength": 4096,
            "description": "The pattern of whole paths below `path`: **/*.py for all Python files.",
        },
        "path": {
            "type": "string",
            "minLength": 1,
            "maxLength": 4096,
            "default": ".",
            "description": "The directory to look in: relative to the project, or an absolute path in it.",
        },
        "type": {
            "enum": ["file", "directory", "any"],
            "default": "file",
            "description": "What is looked for; any includes links.",
        },
        "sort": {"enum": ["name", "time"], "default": "name", "description": "time: the newest first."},
        "hidden": {"type": "boolean", "default": False, "description": "Names that begin with a dot too."},
        "gitignore": {
            "type": "boolean",
            "default": True,
            "description": "Leave out what .gitignore leaves out.",
        },
        "limit": {
            "type": "integer",
            "minimum": 1,
            "maximum": 10000,
            "default": 200,
            "description": "How many paths at most.",
        },
    },
    "required": ["pattern"],
    "additionalProperties": False,
}

OUTPUT_SCHEMA = {
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "paths": {"type": "array", "items": {"type": "string"}, "description": "Below the project."},
        "total": {"type": "integer", "description": "How many there are."},
        "truncated": {"const": True, "description": "There only when some were left out."},
    },
    "required": ["path", "paths", "total"],
}

CONFIG = {"timeout": 60, "max_output": 4194304}

ANNOTATIONS = {
    "title": "Find files",
    "readOnlyHint": True,
    "destructiveHint": False,
    "idempotentHint": True,
    "openWorldHint": False,
}

ANCHOR = {"mode": "always", "env_paths": {"PYTHONPATH": {"prepend": ["{anchor_path}/lib"]}}}

EXAMPLES = [
    {
        "description": (
            "List the Python files of a project. Find files by their names. Which files have a certain "
            "extension, such as .txt or .json? Where is the file called settings? Search for a file or "
            "folder whose name I remember. Find all images. Which files changed most recently?"
        ),
        "parameters": {"pattern": "**/*.py"},
        "files": {"a.py": "", "src/b.py": "", "build/c.py": "", ".gitignore": "build/\n"},
        "expect": {"data": {"path": ".", "paths": ["a.py", "src/b.py"], "total": 2}},
    },
]

SECONDS = 50
"""How long it takes at most."""


@answered
def execute(params, project):
    """Find paths."""
    text = params["pattern"].removeprefix("./")
    if not {"", ".", ".."}.isdisjoint(text.split("/")):
        what = f"pattern: expected names below path with one / between them, found {shown(text)}"
        raise Refusal(what, "the directory to look in goes into path, such as path: src, pattern: **/*.py")
    try:
        pattern = path_pattern(text)
    except BadPattern as exc:
        raise Refusal(f"pattern: {exc}", "a backslash takes its meaning from what follows it") from None
    with project.find(params["path"]) as place:
        prefix = "" if place.relative == "." else place.relative + "/"
        found = [(time, prefix + path) for time, path in matching(project, place, pattern, params)]
        if params["sort"] == "time":
            found.sort()
        kept = [shown(path) for _, path in found[: params["limit"]]]
        answer = {"path": place.shown, "paths": kept, "total": len(found)}
    return answer | ({"truncated": True} if len(kept) < len(found) else {})


def matching(project, place, pattern, params):
    """The paths that match, below the place, in order; with the time of their last change, if that counts."""
    is_wanted, by_time = KINDS[params["type"]], params["sort"] == "time"
    walk = Walk(
        project,
        place,
        hidden=params["hidden"],
        gitignore=params["gitignore"],
        deadline=deadline_in(SECONDS),
    )
    for path, entry, _ in walk.entries():
        if is_wanted(entry) and pattern.match(path):
            yield (-modified(entry) if by_time else 0), path


def modified(entry):
    """When it was changed; what is gone by now was changed long ago."""
    try:
        return entry.stat(follow_symlinks=False).st_mtime_ns
    except OSError:
        return 0


KINDS = {
    "file": lambda entry: entry.is_file(follow_symlinks=False),
    "directory": lambda entry: entry.is_dir(follow_symlinks=False),
    "any": lambda entry: True,
}
