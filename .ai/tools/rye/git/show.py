"""Show a commit of the git repository with what it changed, or a file as it was in a commit.

Only reads. With `path` it is the content of that file, or the names in that directory.
"""

import base64

from repository import MAX_LISTED, MAX_PATCH_BYTES, OF_COMMIT, Repository, left_out, refuse, texts_of

__version__ = "1.0.0"
__tool_type__ = "python"
__tool_name__ = "show"
__executor_id__ = "rye/core/runtimes/python_function_runtime"
__category__ = "rye/git"
__tags__ = ["git", "version control", "commit", "history"]

PERMISSIONS = {"project": "read", "uses": ["git"]}

CONFIG_SCHEMA = {
    "type": "object",
    "properties": {
        "revision": {
            "type": "string",
            "minLength": 1,
            "maxLength": 500,
            "default": "HEAD",
            "description": "A commit, a branch or a tag.",
        },
        "path": {
            "type": "string",
            "minLength": 1,
            "maxLength": 4096,
            "description": "A file or a directory of the project, to see as it was then.",
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
        "commit": {
            "type": ["object", "string"],
            "description": "The commit; its id when a path was asked for.",
        },
        "files": {"type": "array", "items": {"type": "object"}},
        "left_out": {"type": "integer", "description": "How many files or entries are beyond the first 500."},
        "patch": {"type": "string"},
        "path": {"type": "string"},
        "size": {"type": "integer", "description": "Of the file, in bytes."},
        "content": {"type": "string"},
        "encoding": {"enum": ["utf-8", "base64"]},
        "entries": {"type": "array", "items": {"type": "string"}, "description": "Directories end with a /."},
        "truncated": {"const": True, "description": "There only when the patch or the content was cut."},
    },
    "required": ["commit"],
}

CONFIG = {"timeout": 120, "max_output": 8388608}

ANNOTATIONS = {
    "title": "Show a commit",
    "readOnlyHint": True,
    "destructiveHint": False,
    "idempotentHint": True,
    "openWorldHint": False,
}

EXAMPLES = [
    {
        "description": (
            "What did a certain commit change? Show the details of a revision. What did this file look "
            "like in an older version? Look at the previous version of a document. What was in the "
            "last release?"
        ),
        "parameters": {"revision": "nowhere"},
        "files": {
            ".git/HEAD": "ref: refs/heads/main\n",
            ".git/objects/info/note": "",
            ".git/refs/heads/.note": "",
        },
        "expect": {"code": "tool_failed"},
    },
]


def execute(params, project_path):
    """A commit with its patch, against its first parent; or what stood at a path."""
    repository = Repository(project_path)
    commit = repository.commit_id(params["revision"])
    if "path" in params:
        return at_path(repository, commit, params["path"])
    (described, *_), _ = repository.commits("show", "--no-patch", commit)
    result = {"commit": described} | repository.changes(*OF_COMMIT, commit)
    if not params["patch"]:
        return result
    patch, cut = repository.patch(*OF_COMMIT, commit, context=params["context"])
    return result | {"patch": patch} | ({"truncated": True} if cut else {})


def at_path(repository, commit, path):
    """A file or a directory as it was in a commit."""
    repository.inside([path])
    plain = path.strip("/").removeprefix("./")
    place = f"{commit}:./{'' if plain == '.' else plain}"
    kind = repository.ask("cat-file", "-t", place).decode().strip()
    result = {"commit": commit, "path": path}
    if kind == "tree":
        found = entries(repository, place)
        return result | {"entries": found[:MAX_LISTED]} | left_out(len(found) - MAX_LISTED)
    if kind != "blob":
        refuse(f"expected a file or a directory, found a {kind}: {path!r:.200}")
    # As it is stored: no filter and no text conversion.
    content, cut = repository.ask_for_much("cat-file", "blob", place, limit=MAX_PATCH_BYTES)
    result["size"] = int(repository.ask("cat-file", "-s", place))
    return result | text_of(content, cut) | ({"truncated": True} if cut else {})


def entries(repository, place):
    """The names in a directory."""
    records = texts_of(repository.ask("ls-tree", "-z", place))
    found = []
    for record in records:
        about, _, name = record.partition("\t")
        found.append(name + "/" if about.split(" ")[1] == "tree" else name)
    return found


def text_of(content, cut):
    """Content as text; as base64 when it is none. What was cut may end within a character."""
    for missing in range(4 if cut else 1):
        try:
            return {"content": content[: len(content) - missing].decode(), "encoding": "utf-8"}
        except UnicodeDecodeError:
            continue
    return {"content": base64.b64encode(content).decode(), "encoding": "base64"}
