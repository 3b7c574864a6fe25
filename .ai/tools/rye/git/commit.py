"""Commit files of the project to its git repository: those that are named, or what is staged.

Named files are committed as they are now, new and deleted ones too, and nothing else is. In a project that
the person has approved, hooks of the repository run, as they do for a person; in any other, a commit is
refused when the repository names something that git would run. When the commit fails, what was staged before
is what is staged.
"""

from named_programs import require_no_other_repository, require_none
from repository import OF_COMMIT, Repository, refuse

__version__ = "1.0.0"
__tool_type__ = "python"
__tool_name__ = "commit"
__executor_id__ = "rye/core/runtimes/python_function_runtime"
__category__ = "rye/git"
__tags__ = ["git", "version control", "save"]

PERMISSIONS = {"project": "write", "uses": ["git"]}

CONFIG_SCHEMA = {
    "type": "object",
    "properties": {
        "message": {
            "type": "string",
            "minLength": 1,
            "maxLength": 100000,
            "pattern": "\\S",
            "description": "The message: a first line of its own, then what there is to say.",
        },
        "paths": {
            "type": "array",
            "items": {"type": "string", "minLength": 1, "maxLength": 4096},
            "maxItems": 1000,
            "default": [],
            "description": "Files and directories of the project to commit; what is staged when empty.",
        },
    },
    "required": ["message"],
    "additionalProperties": False,
}

OUTPUT_SCHEMA = {
    "type": "object",
    "properties": {
        "commit": {"type": "string", "description": "Its id."},
        "parents": {"type": "array", "items": {"type": "string"}},
        "author": {"type": "object"},
        "date": {"type": "string"},
        "committed": {"type": "string"},
        "subject": {"type": "string"},
        "body": {"type": "string"},
        "branch": {"type": ["string", "null"], "description": "Null when HEAD is detached."},
        "files": {"type": "array", "items": {"type": "object"}},
        "left_out": {"type": "integer", "description": "How many files are beyond the first 500."},
        "said": {"type": "string", "description": "What git and its hooks have printed."},
    },
    "required": ["commit", "branch", "subject", "files"],
}

CONFIG = {"timeout": 600, "max_output": 8388608}

ANNOTATIONS = {
    "title": "Commit files",
    "readOnlyHint": False,
    "destructiveHint": False,
    "idempotentHint": False,
    "openWorldHint": False,
}

EXAMPLES = [
    {
        "description": (
            "Record a new file in the repository. Commit my changes with a message. Check in what I "
            "have done. Save the state of the project in version control. Commit only some of the "
            "files."
        ),
        "parameters": {"message": "Begin", "paths": ["notes.txt"]},
        "files": {
            ".git/HEAD": "ref: refs/heads/main\n",
            ".git/config": "[user]\n\tname = Ada\n\temail = ada@example.org\n[commit]\n\tgpgSign = false\n",
            ".git/objects/info/note": "",
            ".git/refs/heads/.note": "",
            "notes.txt": "hello\n",
        },
        "expect": {
            "contains": {
                "branch": "main",
                "subject": "Begin",
                "files": [{"path": "notes.txt", "state": "added", "added": 1, "removed": 0}],
            }
        },
    },
]


LISTED = ("--pathspec-from-file=-", "--pathspec-file-nul")
"""Paths as they were listed, byte by byte; there may be more than a command line holds."""


def execute(params, project_path):
    """Commit, and say what was committed."""
    repository = Repository(project_path)
    require_none(repository)
    before = repository.head()
    said = commit(repository, params["message"], params["paths"])
    (made, *_), _ = repository.commits("show", "--no-patch", "HEAD")
    if made["commit"] == before:
        refuse(f"expected a new commit, found none: {said}")
    branch = repository.ask("branch", "--show-current").decode().strip()
    files = repository.changes(*OF_COMMIT, made["commit"])
    return made | {"branch": branch or None, **files, "said": said}


def commit(repository, message, paths):
    """Make the commit; what git says."""
    options = ("--quiet", "--cleanup=whitespace", "--file=-")
    if not paths:
        return require(repository.try_to("commit", *options, given=message.encode()))
    within = repository.inside(paths)
    new = repository.ask("ls-files", "--others", "--exclude-standard", "-z", "--", *within)
    require_no_other_repository(repository, new)
    # Git commits only what it knows of. That a file is announced is forgotten again when that fails.
    announced = repository.try_to("add", "--intent-to-add", *LISTED, given=new) if new else (0, "")
    try:
        require(announced)
        arguments = ("commit", *options, "--only", "--", *within)
        return require(repository.try_to(*arguments, given=message.encode()))
    except BaseException:
        if new:
            repository.try_to("reset", "--quiet", *LISTED, given=new)
        raise


def require(answer):
    """What git says, when it has done it."""
    code, said = answer
    if code:
        refuse(said or f"expected git to commit, found exit code {code}: is anything staged?")
    return said
