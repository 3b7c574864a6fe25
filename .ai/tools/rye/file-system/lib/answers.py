"""What the tools of this directory answer, also when they refuse.

A refusal is an object with `success: false`, an `error` that says what was expected and what was found, and a
`hint` that says what to do. What the system refuses becomes one too. Names that are no text are shown with
escapes: JSON cannot hold them.

    @answered
    def execute(params, project):
        raise Refusal("expected a file, found a directory: src", "use rye/file-system/ls")
"""

import os

__all__ = ["Refusal", "answered", "shown"]

MAX_SHOWN = 500
"""How many characters of a name an error shows."""

HINTS = {
    "EACCES": "the user of this server may not do that: change the permissions, or ask the person",
    "EPERM": "the system does not allow it: the file may be immutable (lsattr) or somebody else's",
    "ENOSPC": "make room on the disk; nothing was changed",
    "EDQUOT": "make room on the disk; nothing was changed",
    "EROFS": "the file system can only be read",
    "ENAMETOOLONG": "use a shorter name",
    "EMFILE": "too many files are open: try again",
}


class Refusal(Exception):
    """Something that is not done, and why."""

    def __init__(self, error, hint=""):
        super().__init__(error)
        self.error, self.hint = error, hint

    def as_dict(self):
        """The answer."""
        return {"success": False, "error": self.error, "hint": self.hint}


def answered(function):
    """A tool's `execute`, which answers what it refuses; it gets the project as a `Project`."""

    def execute(params, project_path):
        from places import Project

        try:
            with Project(project_path) as project:
                return function(params, project)
        except Refusal as refusal:
            return refusal.as_dict()
        except OSError as exc:
            return refusal_of(exc).as_dict()
        except UnicodeEncodeError as exc:
            what = f"expected text, found half a surrogate pair at character {exc.start}"
            return Refusal(what, "leave it out").as_dict()

    return execute


def refusal_of(exc):
    """What the system refuses, as a refusal."""
    import errno

    name = errno.errorcode.get(exc.errno, "")
    where = f": {shown(exc.filename)}" if isinstance(exc.filename, (str, bytes)) else ""
    return Refusal(
        f"expected that the system allows it, found: {exc.strerror or exc}{where}", HINTS.get(name, "")
    )


def shown(name):
    """A name or a path as text that every JSON document can hold."""
    text = os.fsencode(name).decode("utf-8", "backslashreplace")
    return text if len(text) <= MAX_SHOWN * 10 else f"{text[:MAX_SHOWN]}…"
