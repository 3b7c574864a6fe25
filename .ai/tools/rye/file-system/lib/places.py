"""Places in a project, and how they are reached: one directory after the other, and never out of it.

Rules:

- Every component of a path is opened by its name in the directory above it, without following a link. A link
  is read and followed by hand, as long as it stays in the project. Nothing is checked first and opened later:
  whoever exchanges a directory meanwhile gets an error, and not a way out.
- `..` goes back to the directory that was come from, and never above the project.
- Nothing but regular files is opened to be read. A device or a FIFO is refused before it is opened.
- What decides about trust is changed by no tool: lockfiles, keys, whom a project trusts, and all of `.git`.
  Private keys are not read either.
- What rye-mcp keeps for the user (user space, state, cache, private copies) is neither read nor changed,
  should it ever be below a project. Each directory on the way is compared by device and inode, so that no
  mount and no other name of it helps.

    with Project(path) as project, project.find("src/a.py") as place:
        descriptor = place.open()
"""

import os
import stat
from itertools import pairwise

from answers import Refusal, shown

__all__ = ["DIRECTORY_FLAGS", "FILE_FLAGS", "MAX_BYTES", "Place", "Project", "identity_of", "kind_of"]

MAX_BYTES = 64 * 1024 * 1024
"""How large a file may be that is held in memory."""

MAX_LINKS = 40
"""How many links one path may pass, as for the system itself."""

DIRECTORY_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE_FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

DECIDING = {"lockfiles", "keys", "trusted_keys", "revoked.toml"}
"""What below `.ai` decides about trust."""

KEPT = (
    ("USER_SPACE", "", ".ai"),
    ("XDG_STATE_HOME", ".local/state", "rye"),
    ("XDG_CACHE_HOME", ".cache", "rye"),
    ("XDG_RUNTIME_DIR", None, "rye"),
)
"""What rye-mcp keeps for the user: the variable that says where, else below the home directory; its name."""

KINDS = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "directory",
    stat.S_IFLNK: "link",
    stat.S_IFIFO: "FIFO",
    stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "device",
    stat.S_IFBLK: "device",
}


def kind_of(status):
    """What something is: `file`, `directory`, `link`, `FIFO`, `socket` or `device`."""
    return KINDS.get(stat.S_IFMT(status.st_mode), "something else")


def identity_of(status):
    """What a file or a directory is known by, whatever it is called."""
    return status.st_dev, status.st_ino


def kept_directories():
    """The directories that rye-mcp keeps for the user, by their identity."""
    found = set()
    for variable, below_home, name in KEPT:
        by_default = None if below_home is None else os.path.expanduser(f"~/{below_home}")
        for base in (os.environ.get(variable), os.environ.get(f"RYE_{variable}"), by_default):
            try:
                found |= {identity_of(os.stat(os.path.join(base, name)))} if base else set()
            except OSError:
                continue
    return found


class Project:
    """The directory that everything has to be in."""

    def __init__(self, path):
        if not path:
            raise Refusal("expected a project, found none", "start the server in a project, or name one")
        self.given = os.path.normpath(path)
        self.descriptor = os.open(path, DIRECTORY_FLAGS)
        self.root = os.readlink(f"/proc/self/fd/{self.descriptor}")
        if self.root != self.given:  # callers name it as it was resolved: it has become another one since
            os.close(self.descriptor)
            raise Refusal(f"expected the project {shown(path)}, found a link on the way to it", "name it again")
        self.kept = kept_directories()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        os.close(self.descriptor)

    def find(self, path, *, follow=True, make=False):
        """The place of a path; what is at its end need not exist.

        Without `follow` a link at its end is the place itself. With `make` directories on the way are made.
        """
        return _Way(self, path, follow, make).place()

    def open_directory(self, name, above, shown_as):
        """A directory in an open one, unless rye-mcp keeps it for the user."""
        descriptor = os.open(name, DIRECTORY_FLAGS, dir_fd=above)
        if identity_of(os.fstat(descriptor)) in self.kept:
            os.close(descriptor)
            raise of_the_user(shown_as)
        return descriptor

    def inside(self, path, asked):
        """The components of an absolute path below the project."""
        normal = os.path.normpath(path)
        for root in (self.root, self.given):
            below = root.rstrip("/") + "/"
            if normal == root or normal.startswith(below):
                return path_parts(os.path.relpath(normal, root))
        raise outside(asked)


class Place:
    """A name in a directory that is held open. `relative` is its path below the project, `.` for itself."""

    def __init__(self, project, directory, name, relative, made=()):
        self.project, self.directory, self.name = project, directory, name
        self.relative, self.made = relative, made

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        os.close(self.directory)

    @property
    def shown(self):
        """The path as it is shown."""
        return shown(self.relative)

    def status(self):
        """What is there, a link as a link; None when there is nothing."""
        try:
            return os.stat(self.name, dir_fd=self.directory, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def require(self):
        """What is there; a refusal when there is nothing."""
        status = self.status()
        if status is None:
            raise missing(self.relative)
        return status

    def open(self, access=os.O_RDONLY):
        """The regular file that is there."""
        self.require_readable()
        status = self.require()
        if not stat.S_ISREG(status.st_mode):
            raise self.no_file(status)
        descriptor = os.open(self.name, access | FILE_FLAGS, dir_fd=self.directory)
        opened = os.fstat(descriptor)
        if not stat.S_ISREG(opened.st_mode):
            os.close(descriptor)
            raise self.no_file(opened)
        return descriptor

    def open_directory(self):
        """The directory that is there."""
        status = self.require()
        if not stat.S_ISDIR(status.st_mode):
            what = f"expected a directory, found a {kind_of(status)}: {self.shown}"
            raise Refusal(what, "name the directory that it is in")
        return self.project.open_directory(self.name, self.directory, self.relative)

    def no_file(self, status):
        """The refusal of what is no regular file."""
        kind = kind_of(status)
        hint = "list it with rye/file-system/ls" if kind == "directory" else "only regular files are opened"
        return Refusal(f"expected a file, found a {kind}: {self.shown}", hint)

    def require_readable(self):
        """Refuse private keys."""
        if holds_keys(self.relative):
            raise Refusal(f"expected no private key, found one: {self.shown}", "keys are shown by: rye keys")

    def require_changeable(self, *, removes=False):
        """Refuse what decides about trust; with `removes` also what holds that."""
        parts = [part.casefold() for part in self.relative.split("/")]
        if self.relative == ".":
            raise Refusal("expected something in the project, found the project itself", "name what is in it")
        if ".git" in parts:
            hint = "git itself changes it: use rye/bash/bash"
            raise Refusal(f"expected something of the project, found a part of git's own: {self.shown}", hint)
        status = self.status()
        if status is not None and identity_of(status) in self.project.kept:
            raise of_the_user(self.relative)
        for part, below in pairwise([*parts, None]):
            if part == ".ai" and (below in DECIDING or (below is None and removes)):
                what = f"expected nothing that decides about trust, found {self.shown}"
                raise Refusal(what, "a person changes that: rye lock, rye keys, rye trust")


class _Way:
    """The way to one place, a component at a time."""

    def __init__(self, project, path, follow, make):
        if "\0" in path:
            raise Refusal("expected a path without NUL characters, found one", "remove it")
        self.project, self.path, self.follow, self.make = project, path, follow, make
        self.pending = self.parts_of(path)
        self.passed, self.made, self.links = [], [], 0

    def place(self):
        """Go, and leave nothing open but the directory of the place."""
        try:
            self.go()
            name = self.last()
            directory = os.dup(self.here)
        except BaseException:
            self.unmake()
            raise
        finally:
            for _, descriptor in self.passed:
                os.close(descriptor)
        relative = "/".join([*(each for each, _ in self.passed), *([] if name == "." else [name])])
        return Place(self.project, directory, name, relative or ".", tuple(self.made))

    @property
    def here(self):
        return self.passed[-1][1] if self.passed else self.project.descriptor

    def parts_of(self, path):
        parts = self.project.inside(path, self.path) if path.startswith("/") else path_parts(path)
        return parts[::-1]

    def go(self):
        """Go as far as the directory of the last component, which stays pending."""
        while self.pending:
            name = self.pending[-1]
            if name == "..":
                self.back()
            elif (self.follow or len(self.pending) > 1) and (target := self.target(name)) is not None:
                self.follow_link(target)
            elif len(self.pending) == 1:
                return
            else:
                self.pending.pop()
                self.passed.append((name, self.enter(name)))

    def last(self):
        """The name of the place in its directory."""
        if self.pending:
            return self.pending.pop()
        if not self.passed:
            return "."
        name, descriptor = self.passed.pop()
        os.close(descriptor)
        return name

    def back(self):
        self.pending.pop()
        if not self.passed:
            raise outside(self.path)
        os.close(self.passed.pop()[1])

    def target(self, name):
        """Where a link points to; None for everything else."""
        try:
            return os.readlink(name, dir_fd=self.here)
        except OSError:
            return None

    def follow_link(self, target):
        self.pending.pop()
        self.links += 1
        if self.links > MAX_LINKS:
            raise Refusal(
                f"expected at most {MAX_LINKS} links, found more: {shown(self.path)}", "links in a ring?"
            )
        parts = self.parts_of(target)
        if target.startswith("/"):
            while self.passed:
                os.close(self.passed.pop()[1])
        self.pending += parts

    def enter(self, name):
        try:
            return self.project.open_directory(name, self.here, self.path)
        except FileNotFoundError:
            if not self.make:
                raise missing(self.path) from None
        except NotADirectoryError:
            at = "/".join([*(each for each, _ in self.passed), name])
            what = f"expected a directory on the way to {shown(self.path)}, found something else: {shown(at)}"
            raise Refusal(what, "check the path with rye/file-system/ls") from None
        at = "/".join([*(each for each, _ in self.passed), name])
        Place(self.project, self.here, name, at).require_changeable()
        os.mkdir(name, dir_fd=self.here)
        self.made.append(at)
        return os.open(name, DIRECTORY_FLAGS, dir_fd=self.here)

    def unmake(self):
        """Remove the directories that were made on the way; what is in them by now keeps them."""
        remove_made(self.project, self.made)


def remove_made(project, made):
    """Remove directories that were made for something that was not done after all."""
    for relative in reversed(made):
        try:
            with project.find(relative, follow=False) as place:
                os.rmdir(place.name, dir_fd=place.directory)
        except (OSError, Refusal):
            return


def path_parts(path):
    """The components of a path that mean something."""
    return [part for part in path.split("/") if part not in ("", ".")]


def holds_keys(relative):
    """Whether a path is one of private keys, or below them."""
    parts = relative.casefold().split("/")
    return any(pair == (".ai", "keys") for pair in pairwise(parts))


def of_the_user(path):
    """The refusal of what rye-mcp keeps for the user."""
    what = f"expected something of the project, found what rye-mcp keeps for the user: {shown(path)}"
    return Refusal(what, "a person looks at that with the rye command, and changes it")


def outside(path):
    """The refusal of what is not in the project."""
    hint = "name something in the project, by a path that no link leads out of it"
    return Refusal(f"expected a path in the project, found one that leads out of it: {shown(path)}", hint)


def missing(path):
    """The refusal of what is not there."""
    return Refusal(
        f"expected something at {shown(path)}, found nothing", "look for it with rye/file-system/glob"
    )
