"""Write a file of the project, whole or not at all; directories on the way are made.

A file that is there is replaced in one step, and keeps its mode. To change a part of a file use
rye/file-system/edit.
"""

from answers import Refusal, answered
from contents import Held, digest, exists, write_whole
from places import remove_made

__version__ = "1.0.0"
__tool_type__ = "python"
__tool_name__ = "write"
__executor_id__ = "rye/core/runtimes/python_function_runtime"
__category__ = "rye/file-system"
__tags__ = ["file", "write", "create", "save"]

PERMISSIONS = {"project": "write", "uses": ["items"]}

CONFIG_SCHEMA = {
    "type": "object",
    "properties": {
        "path": {
            "type": "string",
            "minLength": 1,
            "maxLength": 4096,
            "description": "The file: relative to the project, or an absolute path in it.",
        },
        "content": {"type": "string", "description": "All of its new content."},
        "encoding": {
            "enum": ["utf-8", "base64"],
            "default": "utf-8",
            "description": "base64 for a content that is no text.",
        },
        "create_only": {
            "type": "boolean",
            "default": False,
            "description": "Refuse when there is something already.",
        },
        "expected_hash": {
            "type": "string",
            "pattern": "^[0-9a-f]{64}$",
            "description": "The sha256 that read gave for the file: refuse when it has changed since.",
        },
    },
    "required": ["path", "content"],
    "additionalProperties": False,
}

OUTPUT_SCHEMA = {
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "created": {"type": "boolean", "description": "False when a file was replaced."},
        "size": {"type": "integer", "description": "Bytes written."},
        "sha256": {"type": "string", "description": "Of what the file is now."},
        "previous_sha256": {"type": "string", "description": "Of what was replaced."},
        "made_directories": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["path", "created", "size", "sha256"],
}

CONFIG = {"timeout": 60}

ANNOTATIONS = {
    "title": "Write a file",
    "readOnlyHint": False,
    "destructiveHint": True,
    "idempotentHint": True,
    "openWorldHint": False,
}

ANCHOR = {"mode": "always", "env_paths": {"PYTHONPATH": {"prepend": ["{anchor_path}/lib"]}}}

EXAMPLES = [
    {
        "description": (
            "Save a note as a new file. Create a text file with this content. Write a new script. "
            "Store the results in a document. Make a file in a new folder."
        ),
        "parameters": {"path": "src/demo/hello.txt", "content": "hello\n", "create_only": True},
        "expect": {
            "contains": {
                "path": "src/demo/hello.txt",
                "created": True,
                "size": 6,
                "made_directories": ["src", "src/demo"],
            },
        },
    },
    {
        "description": (
            "Save a text only if there is no such file yet. Overwrite a file with other content. Write "
            "down what I tell you."
        ),
        "parameters": {"path": "a.txt", "content": "new", "create_only": True},
        "files": {"a.txt": "old"},
        "expect": {"code": "tool_failed"},
    },
]


@answered
def execute(params, project):
    """Write, and say what was written."""
    content = bytes_of(params)
    with project.find(params["path"], make=True) as place:
        try:
            place.require_changeable()
            about = put(place, content, params)
        except BaseException:
            remove_made(project, place.made)
            raise
        answer = {"path": place.shown, "created": "previous_sha256" not in about, "size": len(content)}
        answer |= {"sha256": digest(content)} | about
        return answer | ({"made_directories": list(place.made)} if place.made else {})


def put(place, content, params):
    """Write a content in a place; what was there before."""
    expected = params.get("expected_hash")
    status = place.status()
    if status is None:
        if expected is not None:
            raise Refusal(f"expected {place.shown} as it was read, found nothing", "leave out expected_hash")
        write_whole(place, content, create_only=True)
        return {}
    if params["create_only"]:
        raise exists(place)
    with Held(place) as held:
        held.require_hash(expected)
        held.replace(content)
        return {"previous_sha256": digest(held.content)}


def bytes_of(params):
    """The bytes that are to be written."""
    content = params["content"]
    if params["encoding"] == "utf-8":
        try:
            return content.encode()
        except UnicodeEncodeError as exc:
            what = f"expected text, found half a surrogate pair at character {exc.start}"
            raise Refusal(what, "give bytes with encoding base64") from None
    import base64

    try:
        return base64.b64decode(content, validate=True)
    except ValueError as exc:
        raise Refusal(f"expected base64, found: {exc}", "A-Z a-z 0-9 + / and = at the end") from None
