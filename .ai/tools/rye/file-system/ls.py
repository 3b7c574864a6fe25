"""List a directory of the project: names, types, sizes and times; links are not followed."""

import os
import time

from answers import Refusal, answered, shown
from places import kind_of

__version__ = "1.0.0"
__tool_type__ = "python"
__tool_name__ = "ls"
__executor_id__ = "rye/core/runtimes/python_function_runtime"
__category__ = "rye/file-system"
__tags__ = ["directory", "list", "files", "folder"]

PERMISSIONS = {"project": "read"}

CONFIG_SCHEMA = {
    "type": "object",
    "properties": {
        "path": {
            "type": "string",
            "minLength": 1,
            "maxLength": 4096,
            "default": ".",
            "description": "The directory: relative to the project, or an absolute path in it.",
        },
        "depth": {
            "type": "integer",
            "minimum": 1,
            "maximum": 10,
            "default": 1,
            "description": "How many levels of directories.",
        },
        "hidden": {"type": "boolean", "default": True, "description": "Names that begin with a dot too."},
        "sort": {
            "enum": ["name", "time", "size"],
            "default": "name",
            "description": "time: the newest first. size: the largest first.",
        },
        "limit": {
            "type": "integer",
            "minimum": 1,
            "maximum": 5000,
            "default": 500,
            "description": "How many entries at most.",
        },
    },
    "additionalProperties": False,
}

OUTPUT_SCHEMA = {
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "entries": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "name": {"type": "string", "description": "Below the directory that was listed."},
                    "type": {
                        "type": "string",
                        "description": "file, directory, link, FIFO, socket or device.",
                    },
                    "size": {"type": "integer", "description": "Bytes; of files alone."},
                    "modified": {"type": "string", "description": "In UTC."},
                    "target": {"type": "string", "description": "Where a link points to."},
                    "executable": {"const": True},
                },
                "required": ["name", "type", "modified"],
            },
        },
        "total": {"type": "integer", "description": "How many there are."},
        "truncated": {"const": True, "description": "There only when some were left out."},
    },
    "required": ["path", "entries", "total"],
}

CONFIG = {"timeout": 60, "max_output": 4194304}

ANNOTATIONS = {
    "title": "List a directory",
    "readOnlyHint": True,
    "destructiveHint": False,
    "idempotentHint": True,
    "openWorldHint": False,
}

ANCHOR = {"mode": "always", "env_paths": {"PYTHONPATH": {"prepend": ["{anchor_path}/lib"]}}}

EXAMPLES = [
    {
        "description": (
            "Which file in a folder is the biggest? What files are in this directory? Show the "
            "contents of a folder. How big are these files, and when were they last modified? Which "
            "files use the most disk space? What are the newest files? List subdirectories. Does a "
            "file exist?"
        ),
        "parameters": {"path": "src", "sort": "size", "limit": 1},
        "files": {"src/small.txt": "1", "src/large.txt": "12345"},
        "expect": {"contains": {"path": "src", "total": 2, "truncated": True}},
    },
]

MAX_ENTRIES = 200_000
"""How many entries are looked at."""


@answered
def execute(params, project):
    """List a directory."""
    with project.find(params["path"]) as place:
        entries = []
        descriptor = place.open_directory()
        try:
            collect(project, descriptor, "", params, params["depth"], entries)
        finally:
            os.close(descriptor)
    entries.sort(key=ORDERS[params["sort"]])
    kept = [as_dict(*entry) for entry in entries[: params["limit"]]]
    answer = {"path": place.shown, "entries": kept, "total": len(entries)}
    return answer | ({"truncated": True} if len(kept) < len(entries) else {})


def collect(project, directory, prefix, params, depth, entries):
    """Add what is in an open directory: path, status, target of a link."""
    with os.scandir(directory) as found:
        names = [entry.name for entry in found if params["hidden"] or not entry.name.startswith(".")]
    for name in names:
        try:
            status = os.stat(name, dir_fd=directory, follow_symlinks=False)
            kind = kind_of(status)
            target = os.readlink(name, dir_fd=directory) if kind == "link" else None
        except OSError:
            continue  # it is gone by now
        entries.append((prefix + name, status, target))
        if len(entries) > MAX_ENTRIES:
            raise Refusal(f"expected at most {MAX_ENTRIES} entries, found more", "list a smaller directory")
        if kind == "directory" and depth > 1:
            below(project, directory, name, prefix, params, depth, entries)


def below(project, directory, name, prefix, params, depth, entries):
    """Add what is in a directory of it; nothing when it may not be read."""
    try:
        descriptor = project.open_directory(name, directory, prefix + name)
    except (OSError, Refusal):
        return
    try:
        collect(project, descriptor, f"{prefix}{name}/", params, depth - 1, entries)
    finally:
        os.close(descriptor)


ORDERS = {
    "name": lambda entry: entry[0].split("/"),
    "time": lambda entry: (-entry[1].st_mtime_ns, entry[0]),
    "size": lambda entry: (-entry[1].st_size, entry[0]),
}


def as_dict(name, status, target):
    """One entry."""
    kind = kind_of(status)
    entry = {"name": shown(name), "type": kind}
    if kind == "file":
        entry["size"] = status.st_size
    entry["modified"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(status.st_mtime))
    if target is not None:
        entry["target"] = shown(target)
    if kind == "file" and status.st_mode & 0o111:
        entry["executable"] = True
    return entry
