"""Move or rename a file or a directory of the project; links are moved, not followed.

Nothing that is there is replaced unless `overwrite` says so, and then a file by a file alone. Directories on
the way are made.
"""

import os
import stat

from answers import Refusal, answered
from carrying import carry
from contents import exists
from places import kind_of, remove_made

__version__ = "1.0.0"
__tool_type__ = "python"
__tool_name__ = "move"
__executor_id__ = "rye/core/runtimes/python_function_runtime"
__category__ = "rye/file-system"
__tags__ = ["file", "directory", "move", "rename"]

PERMISSIONS = {"project": "write", "uses": ["items"]}

CONFIG_SCHEMA = {
    "type": "object",
    "properties": {
        "source": {
            "type": "string",
            "minLength": 1,
            "maxLength": 4096,
            "description": "What is moved: relative to the project, or an absolute path in it.",
        },
        "target": {
            "type": "string",
            "minLength": 1,
            "maxLength": 4096,
            "description": "Its new path, with its new name. A directory that is there is not moved into.",
        },
        "overwrite": {"type": "boolean", "default": False, "description": "A file may replace a file."},
    },
    "required": ["source", "target"],
    "additionalProperties": False,
}

OUTPUT_SCHEMA = {
    "type": "object",
    "properties": {
        "source": {"type": "string"},
        "target": {"type": "string"},
        "type": {"type": "string"},
        "replaced": {"type": "boolean", "description": "Whether a file was there."},
        "made_directories": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["source", "target", "type", "replaced"],
}

ANNOTATIONS = {
    "title": "Move a file",
    "readOnlyHint": False,
    "destructiveHint": True,
    "idempotentHint": False,
    "openWorldHint": False,
}

ANCHOR = {"mode": "always", "env_paths": {"PYTHONPATH": {"prepend": ["{anchor_path}/lib"]}}}

EXAMPLES = [
    {
        "description": (
            "Give a file another name. Rename a document. Move a picture to another folder. Put these "
            "files into a subdirectory. Reorganise folders."
        ),
        "parameters": {"source": "a.txt", "target": "old/a.txt"},
        "files": {"a.txt": "1"},
        "expect": {
            "data": {
                "source": "a.txt",
                "target": "old/a.txt",
                "type": "file",
                "replaced": False,
                "made_directories": ["old"],
            }
        },
    },
    {
        "description": "Change the name of a directory. Move a file to a place where there is one already.",
        "parameters": {"source": "a.txt", "target": "b.txt"},
        "files": {"a.txt": "1", "b.txt": "2"},
        "expect": {"code": "tool_failed"},
    },
]


@answered
def execute(params, project):
    """Move, and say from where to where."""
    with project.find(params["source"], follow=False) as source:
        source.require_changeable(removes=True)
        status = source.require()
        with project.find(params["target"], follow=False, make=True) as target:
            try:
                replaced = move(source, status, target, overwrite=params["overwrite"])
            except BaseException:
                remove_made(project, target.made)
                raise
            answer = {"source": source.shown, "target": target.shown, "type": kind_of(status)}
            answer["replaced"] = replaced
            return answer | ({"made_directories": list(target.made)} if target.made else {})


def move(source, status, target, *, overwrite):
    """Move one place to another; whether a file was there."""
    target.require_changeable(removes=True)
    if f"{target.relative}/".startswith(f"{source.relative}/"):
        what = f"expected a target outside {source.shown}, found {target.shown}"
        raise Refusal(what, "choose a path that is not what is moved, nor in it")
    there = target.status()
    if there is not None:
        require_replaceable(target, there, status, overwrite=overwrite)
    try:
        replace = there is not None
        carry(source.directory, source.name, target.directory, target.name, replace=replace)
    except FileExistsError:
        raise exists(target) from None
    return there is not None


def require_replaceable(target, there, status, *, overwrite):
    """Refuse to replace what was not meant."""
    if not overwrite:
        raise exists(target)
    for what in (there, status):
        if not stat.S_ISREG(what.st_mode):
            found = f"expected a file to replace a file at {target.shown}, found a {kind_of(what)}"
            raise Refusal(found, "delete what is there first, with rye/file-system/delete")
    if os.path.samestat(there, status):
        raise Refusal(
            f"expected two files, found the same one under both names: {target.shown}", "delete one name"
        )
