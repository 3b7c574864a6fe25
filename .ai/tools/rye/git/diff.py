"""Compare files of the git repository: working tree and index, index and last commit, or two revisions.

Only reads. Without `staged`, `from` and `to` it shows what was changed and not staged yet.
"""

from repository import Repository, refuse

__version__ = "1.0.0"
__tool_type__ = "python"
__tool_name__ = "diff"
__executor_id__ = "rye/core/runtimes/python_function_runtime"
__category__ = "rye/git"
__tags__ = ["git", "version control", "patch", "compare"]

PERMISSIONS = {"project": "read", "uses": ["git"]}

CONFIG_SCHEMA = {
    "type": "object",
    "properties": {
        "staged": {
            "type": "boolean",
            "default": False,
            "description": "What is staged, compared with the last commit.",
        },
        "from": {
            "type": "string",
            "minLength": 1,
            "maxLength": 500,
            "description": "A revision to compare with, such as main or HEAD~3.",
        },
        "to": {
            "type": "string",
            "minLength": 1,
            "maxLength": 500,
            "description": "A second revision, with `from`; without it the working tree is compared.",
        },
        "paths": {
            "type": "array",
            "items": {"type": "string", "minLength": 1, "maxLength": 4096},
            "maxItems": 1000,
            "default": [],
            "description": "Only these files and directories of the project; all of it when empty.",
        },
        "context": {
            "type": "integer",
            "minimum": 0,
            "maximum": 100,
            "default": 3,
            "description": "Lines around each change.",
        },
        "patch": {
            "type": "boolean",
            "default": True,
            "description": "Show the changed lines too, and not only which files changed.",
        },
    },
    "additionalProperties": False,
}

OUTPUT_SCHEMA = {
    "type": "object",
    "properties": {
        "files": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "path": {"type": "string"},
                    "from": {"type": "string", "description": "Its path before it was renamed."},
                    "state": {"type": "string"},
                    "added": {"type": "integer"},
                    "removed": {"type": "integer"},
                    "binary": {"const": True},
                },
                "required": ["path", "state"],
            },
        },
        "left_out": {"type": "integer", "description": "How many files are beyond the first 500."},
        "patch": {"type": "string"},
        "truncated": {"const": True, "description": "There only when the patch was cut at its end."},
    },
    "required": ["files"],
}

CONFIG = {"timeout": 120, "max_output": 8388608}

ANNOTATIONS = {
    "title": "Compare files of the repository",
    "readOnlyHint": True,
    "destructiveHint": False,
    "idempotentHint": True,
    "openWorldHint": False,
}

EXAMPLES = [
    {
        "description": (
            "Which lines are different from what was committed? What did I change since yesterday? "
            "Compare two branches. Show my local modifications line by line. What is the difference "
            "between two versions?"
        ),
        "parameters": {},
        "files": {
            ".git/HEAD": "ref: refs/heads/main\n",
            ".git/objects/info/note": "",
            ".git/refs/heads/.note": "",
        },
        "expect": {"data": {"files": [], "patch": ""}},
    },
    {
        "description": "Make a patch of my changes. What is about to be committed?",
        "parameters": {"from": "--output=canary"},
        "files": {
            ".git/HEAD": "ref: refs/heads/main\n",
            ".git/objects/info/note": "",
            ".git/refs/heads/.note": "",
        },
        "expect": {"code": "tool_failed"},
    },
]


def execute(params, project_path):
    """Which files differ, by how many lines, and the patch."""
    repository = Repository(project_path)
    arguments = ("diff", *sides(repository, params), "--", *repository.inside(params["paths"]))
    result = repository.changes(*arguments)
    if not params["patch"]:
        return result
    patch, cut = repository.patch(*arguments, context=params["context"])
    return result | {"patch": patch} | ({"truncated": True} if cut else {})


def sides(repository, params):
    """What is compared with what, as arguments."""
    named = [repository.commit_id(params[side]) for side in ("from", "to") if side in params]
    if "to" in params and "from" not in params:
        refuse("expected from beside to, found to alone")
    if params["staged"] and len(named) == 2:
        refuse("expected two revisions, or what is staged, found both")
    return [*(["--cached"] if params["staged"] else []), *named]
