"""Change parts of a text file of the project: exact texts for others, all of them or none.

Every old_text has to be in the file exactly once, to the character, unless replace_all says otherwise. All
edits are looked for in the file as it is before any of them, and may not overlap. Line endings, byte order
mark and mode stay as they are. The answer has a unified diff.
"""

import re
from itertools import pairwise

from answers import Refusal, answered
from contents import Held, digest, is_binary
from diffs import diff

__version__ = "1.0.0"
__tool_type__ = "python"
__tool_name__ = "edit"
__executor_id__ = "rye/core/runtimes/python_function_runtime"
__category__ = "rye/file-system"
__tags__ = ["file", "edit", "replace", "change", "diff", "patch"]

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
        "edits": {
            "type": "array",
            "minItems": 1,
            "maxItems": 200,
            "items": {
                "type": "object",
                "properties": {
                    "old_text": {
                        "type": "string",
                        "minLength": 1,
                        "description": "What is replaced: exactly as in the file, without line numbers.",
                    },
                    "new_text": {
                        "type": "string",
                        "description": "What comes in its place.",
                    },
                    "replace_all": {
                        "type": "boolean",
                        "default": False,
                        "description": "Replace it wherever it stands, and not only once.",
                    },
                },
                "required": ["old_text", "new_text"],
                "additionalProperties": False,
            },
            "description": "What is changed, in any order.",
        },
        "expected_hash": {
            "type": "string",
            "pattern": "^[0-9a-f]{64}$",
            "description": "The sha256 that read gave for the file: refuse when it has changed since.",
        },
        "dry_run": {
            "type": "boolean",
            "default": False,
            "description": "Only show the diff, and change nothing.",
        },
    },
    "required": ["path", "edits"],
    "additionalProperties": False,
}

OUTPUT_SCHEMA = {
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "changed": {"type": "boolean", "description": "False for a dry run."},
        "replacements": {"type": "integer"},
        "diff": {"type": "string", "description": "A unified diff; its middle may be left out."},
        "sha256": {"type": "string", "description": "Of what the file is now, or would be."},
        "previous_sha256": {"type": "string"},
    },
    "required": ["path", "changed", "replacements", "diff", "sha256", "previous_sha256"],
}

CONFIG = {"timeout": 60}

ANNOTATIONS = {
    "title": "Edit a file",
    "readOnlyHint": False,
    "destructiveHint": True,
    "idempotentHint": False,
    "openWorldHint": False,
}

ANCHOR = {"mode": "always", "env_paths": {"PYTHONPATH": {"prepend": ["{anchor_path}/lib"]}}}

EXAMPLES = [
    {
        "description": (
            "Correct a mistake in one line of a file, and see the diff. Fix a bug in a function. "
            "Change a value in the configuration. Modify a few lines of a script. Insert a paragraph "
            "into a document."
        ),
        "parameters": {"path": "a.py", "edits": [{"old_text": "x = 1", "new_text": "x = 2"}]},
        "files": {"a.py": "x = 1\ny = 1\n"},
        "expect": {"contains": {"replacements": 1, "diff": "-x = 1\n+x = 2\n y = 1\n"}},
    },
    {
        "description": (
            "Replace a name wherever it stands in a file. Find and replace a word in a text. Rename a "
            "variable in the source code. Delete a line from a file. Append something at the end of a "
            "list."
        ),
        "parameters": {
            "path": "a.py",
            "edits": [{"old_text": "old", "new_text": "new", "replace_all": True}],
        },
        "files": {"a.py": "old = 1\nprint(old)\n"},
        "expect": {"contains": {"replacements": 2}},
    },
    {
        "description": "Update a text that stands in a file twice.",
        "parameters": {"path": "a.py", "edits": [{"old_text": "old", "new_text": "new"}]},
        "files": {"a.py": "old = 1\nprint(old)\n"},
        "expect": {"code": "tool_failed"},
    },
]

MAX_FILE_BYTES = 16 * 1024 * 1024
MAX_REPLACEMENTS = 100_000
REPORTED = 10
"""How many places an error names."""


@answered
def execute(params, project):
    """Edit, and say what has changed."""
    with project.find(params["path"]) as place:
        place.require_changeable()
        with Held(place, MAX_FILE_BYTES) as held:
            held.require_hash(params.get("expected_hash"))
            old = held.content
            require_text(old, place)
            changes = changes_of(old, params["edits"], place)
            new = applied(old, changes)
            if new == old:
                raise Refusal(
                    "expected a change, found that every new_text is what is there", "nothing is to be done"
                )
            if not params["dry_run"]:
                held.replace(new)
        return {
            "path": place.shown,
            "changed": not params["dry_run"],
            "replacements": len(changes),
            "diff": diff(place.shown, old, changes),
            "sha256": digest(new),
            "previous_sha256": digest(old),
        }


def require_text(content, place):
    """Refuse what is no text of bytes that are letters."""
    if is_binary(content):
        what = f"expected text, found bytes that are none (or UTF-16): {place.shown}"
        raise Refusal(what, "write it whole with rye/file-system/write")


# --- what changes ---


class Change:
    """Bytes from `start` to `end` that become `new`; `number` is the edit, from 1."""

    def __init__(self, start, end, new, number):
        self.start, self.end, self.new, self.number = start, end, new, number


def changes_of(content, edits, place):
    """All changes in their order in the file; a refusal for every way in which there can be none."""
    changes = []
    for number, edit in enumerate(edits, 1):
        changes += changes_of_edit(content, edit, number, place)
        if len(changes) > MAX_REPLACEMENTS:
            raise Refusal(
                f"expected at most {MAX_REPLACEMENTS} replacements, found more", "write the file whole"
            )
    changes.sort(key=lambda change: (change.start, change.end))
    for one, other in pairwise(changes):
        if other.start < one.end:
            line = line_of(content, other.start)
            both = f"{one.number} and {other.number}"
            what = f"expected edits that do not overlap, found that {both} do in line {line}"
            raise Refusal(what, "make one edit of both")
    return changes


def changes_of_edit(content, edit, number, place):
    """The changes of one edit."""
    old, new = edit["old_text"], edit["new_text"]
    pattern = pattern_of(old, number)
    found = [each.span() for each in pattern.finditer(content)]
    if not found:
        raise nowhere(content, old, number, place)
    if not edit.get("replace_all", False) and (twice := ambiguous(pattern, content, found)):
        lines = ", ".join(str(line_of(content, start)) for start, _ in twice[:REPORTED])
        what = f"edit {number}: expected its old_text once in {place.shown}, found it in lines {lines}"
        raise Refusal(what, "quote more of what is around it, or say replace_all")
    return [Change(start, end, new_bytes(content, start, end, new, number), number) for start, end in found]


def pattern_of(old, number):
    """The bytes of a text, whatever way its lines end."""
    if not old:
        raise Refusal(f"edit {number}: expected an old_text, found an empty one", "quote what stands there")
    parts = encoded(old, number).replace(b"\r\n", b"\n").split(b"\n")
    return re.compile(rb"\r?\n".join(map(re.escape, parts)))


def ambiguous(pattern, content, found):
    """The places of a text that is there more than once, also when they overlap; nothing for one place."""
    if len(found) > 1:
        return found
    again = pattern.search(content, found[0][0] + 1)
    return [found[0], again.span()] if again and again.end() != found[0][1] else []


def new_bytes(content, start, end, new, number):
    """A new text with the line endings of what it replaces, else of the file."""
    lines = encoded(new, number).replace(b"\r\n", b"\n")
    replaced = content[start:end]
    shown_by = replaced if b"\n" in replaced else content
    is_dos = shown_by.count(b"\r\n") * 2 > shown_by.count(b"\n")
    return lines.replace(b"\n", b"\r\n") if is_dos else lines


def encoded(text, number):
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise Refusal(f"edit {number}: expected text, found half a surrogate pair", "leave it out") from None


def nowhere(content, old, number, place):
    """The refusal of a text that is not there, with what is nearest to it."""
    what = f"edit {number}: expected its old_text in {place.shown}, found it nowhere"
    wanted = [b"".join(line.split()) for line in encoded(old, number).split(b"\n") if line.strip()]
    if not wanted:
        return Refusal(what, "quote a line that is not blank")
    lines = [b"".join(line.split()) for line in content.split(b"\n")]
    alike = [place + 1 for place, line in enumerate(lines) if line == wanted[0]]
    if alike:
        listed = ", ".join(map(str, alike[:REPORTED]))
        hint = (
            f"its first line stands in line {listed}, but white space or a later line differs: read it again"
        )
        return Refusal(what, hint)
    if is_not_utf_8(content):
        return Refusal(what, "the file is not UTF-8: quote only what is ASCII")
    return Refusal(what, "read the file again: it has to be the same to the character")


def is_not_utf_8(content):
    try:
        content.decode()
    except UnicodeDecodeError:
        return True
    return False


def applied(content, changes):
    """The content with all changes."""
    pieces, position = [], 0
    for change in changes:
        pieces += content[position : change.start], change.new
        position = change.end
    return b"".join([*pieces, content[position:]])


def line_of(content, position):
    """The number of the line of a position."""
    return content.count(b"\n", 0, position) + 1
