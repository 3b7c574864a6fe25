"""Walking below a directory of the project, without following links, and honouring `.gitignore`.

Rules:

- What comes is sorted by its path, a component at a time: an answer that is cut is the same every time.
- `.gitignore` counts in every directory from the project down, and nothing else does: no rules of the user,
  none above the project, and it does not matter whether git is used. What was asked for by its path is
  looked at although a rule above leaves it out. A `.gitignore` that is a link or no file does not count, and
  of the others the first 128 KiB do, until the rules of all on the way fill 512 KiB: longer ones take minutes.
- Hidden names are those that begin with a dot. `.git` and private keys are passed over always.
- A directory that cannot be opened is passed over, as is what is deeper than 200 directories, and what
  rye-mcp keeps for the user.
"""

import os
import stat
import time

from answers import Refusal
from patterns import Rules
from places import FILE_FLAGS, holds_keys

__all__ = ["Ignoring", "Walk", "deadline_in", "rules_in"]

MAX_DEPTH = 200
MAX_RULES_BYTES = 1 << 17
MAX_RULES_ON_THE_WAY = 1 << 19
RULES_NAME = ".gitignore"
NEVER = ".git"
KEYS_LENGTH = len("keys")
"""Only a name as long as that is asked about: most are not."""
LOOK_AT_CLOCK_EVERY = 512


def deadline_in(seconds):
    """A point in time."""
    return time.monotonic() + seconds


def rules_in(directory):
    """The rules of an open directory; None when it has none."""
    content = _read_rules(directory)
    if content is None:
        return None
    if len(content) > MAX_RULES_BYTES:
        content = content[: content.rfind(b"\n", 0, MAX_RULES_BYTES) + 1]
    lines = content.decode("utf-8", "surrogateescape").removeprefix("\ufeff").split("\n")
    return Rules(lines)


def _read_rules(directory):
    """As much as counts of the rules of an open directory, and a byte more; None when it has no such file."""
    try:
        descriptor = os.open(RULES_NAME, os.O_RDONLY | FILE_FLAGS, dir_fd=directory)
    except OSError:
        return None
    try:
        return (
            os.read(descriptor, MAX_RULES_BYTES + 1) if stat.S_ISREG(os.fstat(descriptor).st_mode) else None
        )
    except OSError:
        return None
    finally:
        os.close(descriptor)


class Ignoring:
    """The rules from the project down to one directory; `path` is that directory below the project."""

    def __init__(self, levels=(), size=0):
        self.levels, self.size = levels, size

    @classmethod
    def above(cls, project, relative):
        """The rules that stand above a directory: in the project, and on the way."""
        found = cls()
        if relative == ".":
            return found
        parts = relative.split("/")
        for depth in range(len(parts)):
            at = "/".join(parts[:depth]) or "."
            with project.find(at, follow=False) as place:
                descriptor = place.open_directory()
                try:
                    found = found.below("" if at == "." else at + "/", rules_in(descriptor))
                finally:
                    os.close(descriptor)
        return found

    def below(self, prefix, rules):
        """With the rules of one more directory; `prefix` is its path with a slash, empty for the project."""
        if rules is None or self.is_full_for(rules):
            return self
        return Ignoring((*self.levels, (len(prefix), rules)), self.size + rules.size)

    def is_full_for(self, rules):
        """Whether these rules are too much on top of all above them, and do not count."""
        return self.size + rules.size > MAX_RULES_ON_THE_WAY

    def verdict(self, path, name, *, is_directory):
        """Whether something is left out, or taken back in; None when no rule is about it."""
        for length, rules in reversed(self.levels):
            verdict = rules.verdict(path[length:], name, is_directory=is_directory)
            if verdict is not None:
                return verdict
        return None

    def leaves_out(self, path, name, *, is_directory):
        """Whether something is left out; `path` is below the project."""
        return bool(self.verdict(path, name, is_directory=is_directory))


class Walk:
    """Everything below a place that is looked at.

    `left_out` are rules as well, of the caller: paths below the place.
    """

    def __init__(self, project, place, *, hidden, gitignore, left_out=None, deadline=None):
        self._prefix = "" if place.relative == "." else place.relative + "/"
        self._hidden, self._left_out, self._deadline = hidden, left_out, deadline
        self._honours = gitignore
        self._ignoring = Ignoring.above(project, place.relative) if gitignore else Ignoring()
        self._place, self._project = place, project
        self._seen = 0
        self.problems = 0

    def entries(self):
        """Each entry with its path below the place; directories before what is in them."""
        descriptor = self._place.open_directory()
        try:
            yield from self._in(descriptor, "", self._ignoring, 0)
        finally:
            os.close(descriptor)

    def has_plain_rules(self):
        """Whether every `.gitignore` that another program would read below is a file as `rules_in` takes it.

        It may go where this walk does not: only what the rules leave out is no place for it.
        """
        descriptor = self._place.open_directory()
        try:
            return self._is_plain_in(descriptor, "", self._ignoring, 0)
        finally:
            os.close(descriptor)

    def _is_plain_in(self, directory, prefix, ignoring, depth):
        self._require_time()
        with os.scandir(directory) as found:
            names = [
                entry.name
                for entry in found
                if entry.name == RULES_NAME or entry.is_dir(follow_symlinks=False)
            ]
        if RULES_NAME in names:
            rules = rules_in(directory) if _is_plain(directory) else None
            if rules is None or rules.is_cut or ignoring.is_full_for(rules):
                return False
            ignoring = ignoring.below(self._prefix + prefix, rules)
        below = [name for name in names if self._may_be_entered(prefix, name, ignoring)]
        return depth >= MAX_DEPTH or all(
            self._is_plain_below(directory, name, prefix, ignoring, depth) for name in below
        )

    def _may_be_entered(self, prefix, name, ignoring):
        if name in (NEVER, RULES_NAME):
            return False
        verdict = ignoring.verdict(self._prefix + prefix + name, name, is_directory=True)
        return not verdict if verdict is not None else self._hidden or name[0] != "."

    def _is_plain_below(self, directory, name, prefix, ignoring, depth):
        try:
            descriptor = self._project.open_directory(name, directory, prefix + name)
        except (OSError, Refusal):
            return True
        try:
            return self._is_plain_in(descriptor, f"{prefix}{name}/", ignoring, depth + 1)
        finally:
            os.close(descriptor)

    def _in(self, directory, prefix, ignoring, depth):
        with os.scandir(directory) as found:
            entries = sorted(found, key=lambda entry: entry.name)
        if self._honours and any(entry.name == RULES_NAME for entry in entries):
            ignoring = ignoring.below(self._prefix + prefix, rules_in(directory))
            self._require_time()
        for entry in entries:
            self._look_at_clock()
            path = prefix + entry.name
            is_directory = entry.is_dir(follow_symlinks=False)
            if not self._is_wanted(path, entry.name, ignoring, is_directory):
                continue
            yield path, entry, directory
            if is_directory and depth < MAX_DEPTH:
                yield from self._below(directory, entry.name, path, ignoring, depth)

    def _below(self, directory, name, path, ignoring, depth):
        try:
            descriptor = self._project.open_directory(name, directory, path)
        except (OSError, Refusal):
            self.problems += 1
            return
        try:
            yield from self._in(descriptor, path + "/", ignoring, depth + 1)
        finally:
            os.close(descriptor)

    def _is_wanted(self, path, name, ignoring, is_directory):
        if name[0] == "." and (not self._hidden or name == NEVER):
            return False
        if len(name) == KEYS_LENGTH and holds_keys(self._prefix + path):
            return False
        if self._left_out is not None and self._left_out.verdict(path, name, is_directory=is_directory):
            return False
        levels = ignoring.levels
        return not (levels and ignoring.leaves_out(self._prefix + path, name, is_directory=is_directory))

    def _look_at_clock(self):
        self._seen += 1
        if not self._seen % LOOK_AT_CLOCK_EVERY:
            self._require_time()

    def _require_time(self):
        if self._deadline is not None and time.monotonic() > self._deadline:
            raise Refusal(
                "expected to be done in time, found more files than that", "name a smaller directory"
            )


def _is_plain(directory):
    """Whether the rules of a directory are read to their end, and by every program in the same way."""
    content = _read_rules(directory)
    if content is None or len(content) > MAX_RULES_BYTES:
        return False
    try:
        return "\0" not in content.decode("utf-8")
    except UnicodeDecodeError:
        return False
