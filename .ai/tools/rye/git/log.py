"""List commits of the git repository of the project, the newest first: who, when, and what they say.

Only reads.
"""

from repository import Repository, refuse

__version__ = "1.0.0"
__tool_type__ = "python"
__tool_name__ = "log"
__executor_id__ = "rye/core/runtimes/python_function_runtime"
__category__ = "rye/git"
__tags__ = ["git", "version control", "history", "commits"]

PERMISSIONS = {"project": "read", "uses": ["git"]}

CONFIG_SCHEMA = {
    "type": "object",
    "properties": {
        "to": {
            "type": "string",
            "minLength": 1,
            "maxLength": 500,
            "default": "HEAD",
            "description": "The revision to begin at, such as a branch or a tag.",
        },
        "from": {
            "type": "string",
            "minLength": 1,
            "maxLength": 500,
            "description": "Leave out what this revision has already: from main to HEAD.",
        },
        "paths": {
            "type": "array",
            "items": {"type": "string", "minLength": 1, "maxLength": 4096},
            "maxItems": 1000,
            "default": [],
            "description": "Only commits that changed these files and directories.",
        },
        "author": {
            "type": "string",
            "maxLength": 500,
            "pattern": "^[^\\u0000]*$",
            "description": "Text in the author's name or address.",
        },
        "message": {
            "type": "string",
            "maxLength": 500,
            "pattern": "^[^\\u0000]*$",
            "description": "Text in the message.",
        },
        "since": {
            "type": "string",
            "maxLength": 100,
            "pattern": "^[^\\u0000]*$",
            "description": "Only after this time: 2026-01-31, 2 weeks ago.",
        },
        "until": {
            "type": "string",
            "maxLength": 100,
            "pattern": "^[^\\u0000]*$",
            "description": "Only before this time.",
        },
        "limit": {
            "type": "integer",
            "minimum": 1,
            "maximum": 500,
            "default": 20,
            "description": "How many commits at most.",
        },
        "skip": {
            "type": "integer",
            "minimum": 0,
            "maximum": 1000000,
            "default": 0,
            "description": "Pass over so many: to go on where a list ended.",
        },
    },
    "additionalProperties": False,
}

OUTPUT_SCHEMA = {
    "type": "object",
    "properties": {
        "commits": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "commit": {"type": "string"},
                    "parents": {"type": "array", "items": {"type": "string"}},
                    "author": {
                        "type": "object",
                        "properties": {"name": {"type": "string"}, "email": {"type": "string"}},
                    },
                    "date": {"type": "string", "description": "When it was written."},
                    "committed": {"type": "string"},
                    "subject": {"type": "string"},
                    "body": {"type": "string", "description": "The beginning of a long one."},
                },
                "required": ["commit", "parents", "author", "date", "subject", "body"],
            },
        },
        "more": {"type": "boolean", "description": "Whether there are commits beyond the limit."},
    },
    "required": ["commits", "more"],
}

CONFIG = {"timeout": 120, "max_output": 16777216}

ANNOTATIONS = {
    "title": "List commits",
    "readOnlyHint": True,
    "destructiveHint": False,
    "idempotentHint": True,
    "openWorldHint": False,
}

EXAMPLES = [
    {
        "description": (
            "Who committed what, and when? Show the history of the project. What are the latest "
            "commits? What did a certain author do last week? When was this file last changed, and by "
            "whom? Find a commit by its message. Who contributed to this repository?"
        ),
        "parameters": {"limit": 5},
        "files": {
            ".git/HEAD": "ref: refs/heads/main\n",
            ".git/objects/info/note": "",
            ".git/refs/heads/.note": "",
        },
        "expect": {"data": {"commits": [], "more": False}},
    },
]

FILTERS = ("author", "message", "since", "until")
TIMES = ("since", "until")
OPTIONS = {"message": "grep"}
MAX_BODY = 2000
"""How many characters of each message are listed; rye/git/show has more of it."""


def execute(params, project_path):
    """Commits, and whether there are more."""
    repository = Repository(project_path)
    if params["to"] == "HEAD" and repository.head() is None:
        return {"commits": [], "more": False}
    limit = params["limit"]
    for name in TIMES:
        require_time(repository, name, params.get(name))
    # Each value is a part of its option, so that it is none of its own.
    chosen = [f"--{OPTIONS.get(name, name)}={params[name]}" for name in FILTERS if params.get(name)]
    numbers = [f"--max-count={limit + 1}", f"--skip={params['skip']}"]
    revisions = [repository.commit_id(params["to"])]
    if "from" in params:
        revisions.append(f"^{repository.commit_id(params['from'])}")
    paths = repository.inside(params["paths"]) if params["paths"] else []
    options = ("--fixed-strings", "--regexp-ignore-case", *chosen, *numbers)
    commits, cut = repository.commits("log", *options, *revisions, "--", *paths, longest=MAX_BODY)
    return {"commits": commits[:limit], "more": cut or len(commits) > limit}


def require_time(repository, name, text):
    """Refuse what is no time: git takes it for now, and finds nothing."""
    if text and not repository.is_time(text):
        refuse(f"expected a time as {name}, such as 2026-01-31 or 2 weeks ago, found {text!r}")
