"""Delete a file or a directory of the project: it goes to a trash folder, and can be brought back.

The trash is in the person's state directory, outside every project, and keeps things for 30 days. A link is
deleted, and not what it points to.
"""

import os
import shlex
import stat
import time
from contextlib import suppress

from answers import Refusal, answered, shown
from carrying import carry, remove
from places import DIRECTORY_FLAGS, kind_of

__version__ = "1.0.0"
__tool_type__ = "python"
__tool_name__ = "delete"
__executor_id__ = "rye/core/runtimes/python_function_runtime"
__category__ = "rye/file-system"
__tags__ = ["file", "directory", "delete", "remove", "trash"]

PERMISSIONS = {"project": "write", "uses": ["items", "trash"]}

CONFIG_SCHEMA = {
    "type": "object",
    "properties": {
        "path": {
            "type": "string",
            "minLength": 1,
            "maxLength": 4096,
            "description": "What is deleted: relative to the project, or an absolute path in it.",
        },
        "recursive": {
            "type": "boolean",
            "default": False,
            "description": "Needed for a directory that is not empty.",
        },
    },
    "required": ["path"],
    "additionalProperties": False,
}

OUTPUT_SCHEMA = {
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "type": {"type": "string"},
        "trash": {"type": "string", "description": "Where it is now, for 30 days."},
        "restore": {"type": "string", "description": "The command that brings it back."},
    },
    "required": ["path", "type", "trash", "restore"],
}

ANNOTATIONS = {
    "title": "Delete a file",
    "readOnlyHint": False,
    "destructiveHint": True,
    "idempotentHint": False,
    "openWorldHint": False,
}

ANCHOR = {"mode": "always", "env_paths": {"PYTHONPATH": {"prepend": ["{anchor_path}/lib"]}}}

EXAMPLES = [
    {
        "description": (
            "Throw away a file that is not needed any more. Delete a document. Remove an old backup, "
            "but let me restore it later. Put a file into the trash."
        ),
        "parameters": {"path": "old.txt"},
        "files": {"old.txt": "1"},
        "expect": {"contains": {"path": "old.txt", "type": "file"}},
    },
    {
        "description": (
            "Remove a directory with everything in it. Get rid of a folder and all files inside. Clean "
            "up the build output. Erase temporary files."
        ),
        "parameters": {"path": "src"},
        "files": {"src/a.txt": "1"},
        "expect": {"code": "tool_failed"},
    },
]

KEPT_DAYS = 30
TRASH = ("rye", "trash")
STAMP = "%Y%m%dT%H%M%SZ"


@answered
def execute(params, project):
    """Put it in the trash, and say where."""
    with project.find(params["path"], follow=False) as place:
        place.require_changeable(removes=True)
        status = place.require()
        if stat.S_ISDIR(status.st_mode) and not params["recursive"]:
            require_empty(place)
        where, trash = open_trash()
        try:
            sweep(trash)
            entry = f"{time.strftime(STAMP, time.gmtime())}-{os.urandom(4).hex()}"
            put(place, trash, entry)
        finally:
            os.close(trash)
        now_at = f"{where}/{entry}/{place.name}"
        kept, home = shlex.quote(shown(now_at)), shlex.quote(shown(f"{project.root}/{place.relative}"))
        # Never over nor into what has come there since; some mv end well without having moved anything.
        # A link that leads nowhere from the trash is no reason to think that it has gone.
        back = f"mv -nT {kept} {home} && test ! -e {kept} && test ! -L {kept}"
        return {"path": place.shown, "type": kind_of(status), "trash": shown(now_at), "restore": back}


def require_empty(place):
    """Refuse a directory that has something in it."""
    descriptor = place.open_directory()
    try:
        names = os.listdir(descriptor)
    finally:
        os.close(descriptor)
    if names:
        what = f"expected a file or an empty directory, found one with {len(names)} entries: {place.shown}"
        raise Refusal(what, "say recursive: true to delete all of it")


def open_trash():
    """The path of the trash, and it open: made, and only this user's."""
    state = os.environ.get("XDG_STATE_HOME", "")
    if not state.startswith("/"):
        state = os.path.join(os.path.expanduser("~"), ".local/state")
    if not state.startswith("/"):
        raise Refusal("expected a home directory for the trash, found none", "set XDG_STATE_HOME or HOME")
    os.makedirs(state, 0o700, exist_ok=True)
    where = os.path.realpath(state)
    descriptor = os.open(where, DIRECTORY_FLAGS)
    for name in TRASH:
        where = f"{where}/{name}"
        below = private_directory(descriptor, name, where)
        os.close(descriptor)
        descriptor = below
    return where, descriptor


def private_directory(above, name, where):
    """A directory that only this user may look into."""
    with suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=above)
    descriptor = os.open(name, DIRECTORY_FLAGS, dir_fd=above)
    status = os.fstat(descriptor)
    if status.st_uid != os.geteuid() or status.st_mode & 0o077:
        os.close(descriptor)
        what = f"expected a directory that is only yours, found one that is not: {shown(where)}"
        raise Refusal(what, f"look at it, then: chmod 700 {shlex.quote(shown(where))}")
    return descriptor


def put(place, trash, entry):
    """Take what is in a place to the trash."""
    os.mkdir(entry, 0o700, dir_fd=trash)
    try:
        descriptor = os.open(entry, DIRECTORY_FLAGS, dir_fd=trash)
        try:
            carry(place.directory, place.name, descriptor, place.name)
        finally:
            os.close(descriptor)
    except BaseException:
        remove(trash, entry)
        raise


def sweep(trash):
    """Remove what has been in the trash for long enough, as far as that is possible; nothing else."""
    oldest = time.strftime(STAMP, time.gmtime(time.time() - KEPT_DAYS * 86400))
    for name in os.listdir(trash):
        stamp, dash, _ = name.partition("-")
        if dash and len(stamp) == len(oldest) and stamp < oldest and stamp.endswith("Z"):
            try:
                remove(trash, name)
            except OSError:
                continue
