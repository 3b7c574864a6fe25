"""Show what has changed in the git repository of the project: the branch, and each file with its state.

Only reads. What is staged and what is not stand apart; the paths are relative to the project.
"""

from repository import STATES, Repository, texts_of

__version__ = "1.0.0"
__tool_type__ = "python"
__tool_name__ = "status"
__executor_id__ = "rye/core/runtimes/python_function_runtime"
__category__ = "rye/git"
__tags__ = ["git", "version control", "changes", "branch"]

PERMISSIONS = {"project": "read", "uses": ["git"]}

CONFIG_SCHEMA = {
    "type": "object",
    "properties": {
        "paths": {
            "type": "array",
            "items": {"type": "string", "minLength": 1, "maxLength": 4096},
            "maxItems": 1000,
            "default": [],
            "description": "Only these files and directories of the project; all of it when empty.",
        },
        "limit": {
            "type": "integer",
            "minimum": 1,
            "maximum": 10000,
            "default": 500,
            "description": "How many files are listed at most.",
        },
    },
    "additionalProperties": False,
}

OUTPUT_SCHEMA = {
    "type": "object",
    "properties": {
        "branch": {"type": ["string", "null"], "description": "Null when HEAD is detached."},
        "commit": {"type": ["string", "null"], "description": "Null before the first commit."},
        "upstream": {"type": ["string", "null"]},
        "ahead": {"type": "integer"},
        "behind": {"type": "integer"},
        "clean": {"type": "boolean"},
        "changes": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "path": {"type": "string"},
                    "from": {"type": "string", "description": "Its path before it was renamed."},
                    "staged": {"type": ["string", "null"]},
                    "unstaged": {"type": ["string", "null"]},
                },
                "required": ["path", "staged", "unstaged"],
            },
        },
        "untracked": {"type": "array", "items": {"type": "string"}},
        "left_out": {"type": "integer", "description": "How many files are beyond the limit."},
    },
    "required": ["branch", "commit", "clean", "changes", "untracked"],
}

CONFIG = {"timeout": 120, "max_output": 8388608}

ANNOTATIONS = {
    "title": "Status of the repository",
    "readOnlyHint": True,
    "destructiveHint": False,
    "idempotentHint": True,
    "openWorldHint": False,
}

EXAMPLES = [
    {
        "description": (
            "Which files are new, and not added yet? Which branch am I on? What have I modified? Are "
            "there changes that are not committed? Is the working tree clean? What is staged?"
        ),
        "parameters": {},
        "files": {
            ".git/HEAD": "ref: refs/heads/main\n",
            ".git/objects/info/note": "",
            ".git/refs/heads/.note": "",
            "notes.txt": "hello\n",
        },
        "expect": {"contains": {"branch": "main", "commit": None, "clean": False}},
    },
    {
        "description": "Is this folder in a repository at all? Are there merge conflicts?",
        "parameters": {},
        "expect": {"code": "tool_failed"},
    },
]


def execute(params, project_path):
    """The state of the repository, in porcelain format 2."""
    repository = Repository(project_path)
    paths = repository.inside(params["paths"])
    options = ("--porcelain=v2", "-z", "--branch", "--untracked-files=all", "--ignore-submodules=dirty")
    records = texts_of(repository.ask("status", *options, "--", *paths))
    about = dict(record[2:].split(" ", 1) for record in records if record.startswith("# branch."))
    changes, untracked = read(repository, [record for record in records if not record.startswith("# ")])
    limit = params["limit"]
    kept = changes[:limit], untracked[: max(0, limit - len(changes))]
    left_out = len(changes) + len(untracked) - len(kept[0]) - len(kept[1])
    result = {**head_of(about), "clean": not changes and not untracked}
    result |= {"changes": kept[0], "untracked": kept[1]}
    return result | ({"left_out": left_out} if left_out else {})


def head_of(about):
    """Where the repository stands."""
    branch, commit = about.get("branch.head"), about.get("branch.oid")
    ahead, _, behind = about.get("branch.ab", "+0 -0").partition(" ")
    return {
        "branch": None if branch == "(detached)" else branch,
        "commit": None if commit == "(initial)" else commit,
        "upstream": about.get("branch.upstream"),
        "ahead": int(ahead),
        "behind": -int(behind),
    }


def read(repository, records):
    """Changes and what is untracked, of the records of all files."""
    changes, untracked = [], []
    # How many fields stand before the path, by the kind of a record.
    before_path = {"1": 8, "2": 9, "u": 10, "?": 1}
    while records:
        kind, record = records[0][0], records.pop(0)
        fields = record.split(" ", before_path[kind])
        path = repository.relative(fields[-1])
        before = records.pop(0) if kind == "2" else None
        if path is None:
            continue
        if kind == "?":
            untracked.append(path)
            continue
        staged, unstaged = (STATES.get(letter) for letter in fields[1])
        change = {"path": path, "staged": staged, "unstaged": unstaged}
        if kind == "u":
            change |= {"staged": "conflict", "unstaged": "conflict"}
        changes.append(change | ({"from": repository.relative(before) or before} if before else {}))
    return changes, untracked
