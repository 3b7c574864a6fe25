"""Which files of a directory have a line that matches: by ripgrep where it is there, else by this program.

Rules:

- Both ways give the same: `Selection` has the last word on which files are looked at, and whoever shows lines
  looks for them again. ripgrep only says in which files that is worth while.
- Neither follows a link, nor finds anything in what is larger than 64 MiB or has a NUL byte in it. ripgrep is
  not told of the size: asking for it takes longer than all else that is done for a file.
- A file is opened by its directories, one after the other, through no link.
"""

import os
import stat

from answers import Refusal
from children import TooLate, kill, processors, read_until, results_of
from contents import MAX_BYTES
from patterns import Rules
from places import DIRECTORY_FLAGS, FILE_FLAGS, holds_keys
from trees import Ignoring, Walk, rules_in

__all__ = ["Files", "Selection", "matching_paths"]

FIRST_READ_BYTES = 64 * 1024
FEW_FILES = 200
"""How many files one process looks at by itself."""

BLOCK = 32
"""How many files in a row a process takes."""

ALWAYS = [
    "--files-with-matches",
    "--null",
    "--no-config",
    "--no-messages",
    "--color=never",
    "--no-require-git",
    "--no-ignore-parent",
    "--no-ignore-dot",
    "--no-ignore-global",
    "--no-ignore-exclude",
    "--glob=!.git",
]


class Selection:
    """Which files below a place are looked at.

    Globs are those of `.gitignore`, below the place: a file is looked at when one of them matches it, or
    there is none, and when none with `!` matches it or a directory that it is in.
    """

    def __init__(self, project, place, *, globs, hidden, gitignore):
        self.project, self.place = project, place
        self.hidden, self.gitignore = hidden, gitignore
        self.globs = [glob for glob in globs if not glob.startswith("!")]
        self.without = [glob[1:] for glob in globs if glob.startswith("!")]
        self._taken = Rules(self.globs) if self.globs else None
        self.left_out = Rules(self.without) if self.without else None
        self._prefix = "" if place.relative == "." else place.relative + "/"
        self._known = {}
        self._above = Ignoring.above(project, place.relative) if gitignore else Ignoring()

    def problems(self):
        """The globs that mean nothing."""
        globs = (*self.globs, *self.without)
        return [glob for glob in globs if glob.startswith("!") or not Rules([glob]).rules]

    def takes(self, path):
        """Whether the globs take a file."""
        return self._taken is None or bool(
            self._taken.verdict(path, path.rpartition("/")[2], is_directory=False)
        )

    def paths(self, deadline):
        """All files that are looked at, in order."""
        walk = Walk(
            self.project,
            self.place,
            hidden=self.hidden,
            gitignore=self.gitignore,
            left_out=self.left_out,
            deadline=deadline,
        )
        takes = self.takes
        return [
            path for path, entry, _ in walk.entries() if entry.is_file(follow_symlinks=False) and takes(path)
        ]

    def kept(self, paths):
        """Of what ripgrep found, the files that are looked at, in order."""
        kept = [path for path in paths if self.takes(path) and self._is_reached(path)]
        return sorted(kept, key=lambda path: path.split("/"))

    def _is_reached(self, path):
        """Whether nothing on the way to a file is left out: ripgrep knows no rules from above the place, and
        takes what a rule takes back in though it is hidden.
        """
        parts = path.split("/")
        if any(part[0] == "." for part in parts) and not (self.hidden and ".git" not in parts):
            return False
        if holds_keys(self._prefix + path):
            return False
        if self.left_out is None and not self._above.levels:
            return True
        for depth, name in enumerate(parts, 1):
            at, is_directory = "/".join(parts[:depth]), depth < len(parts)
            if self.left_out is not None and self.left_out.verdict(at, name, is_directory=is_directory):
                return False
            whole = self._prefix + at
            if self._above.levels and self._rules_in(whole.rpartition("/")[0]).leaves_out(
                whole, name, is_directory=is_directory
            ):
                return False
        return True

    def _rules_in(self, directory):
        """The rules for what is in a directory of the project, which is empty for the project itself."""
        known = self._known.get(directory)
        if known is None:
            above = self._rules_in(directory.rpartition("/")[0]) if directory else Ignoring()
            prefix = f"{directory}/" if directory else ""
            known = self._known[directory] = above.below(prefix, self._rules_of(directory))
        return known

    def _rules_of(self, directory):
        try:
            with self.project.find(directory or ".", follow=False) as place:
                descriptor = place.open_directory()
        except (Refusal, OSError):
            return None
        try:
            return rules_in(descriptor)
        finally:
            os.close(descriptor)


class Files:
    """Files below an open directory, each opened through no link; those in a row share their directories."""

    def __init__(self, root):
        self._root, self._way = root, []

    def read(self, path):
        """The content of a regular file; None for what cannot be read."""
        *directories, name = path.split("/")
        try:
            self._go(directories)
            here = self._way[-1][1] if self._way else self._root
            descriptor = os.open(name, os.O_RDONLY | FILE_FLAGS, dir_fd=here)
        except OSError:
            return None
        try:
            return _content(descriptor)
        except OSError:
            return None
        finally:
            os.close(descriptor)

    def _go(self, directories):
        way = self._way
        common = 0
        while common < min(len(way), len(directories)) and way[common][0] == directories[common]:
            common += 1
        while len(way) > common:
            os.close(way.pop()[1])
        for name in directories[common:]:
            here = way[-1][1] if way else self._root
            way.append((name, os.open(name, DIRECTORY_FLAGS, dir_fd=here)))


def _content(descriptor):
    content = os.read(descriptor, FIRST_READ_BYTES + 1)
    if len(content) <= FIRST_READ_BYTES:
        return content
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_BYTES:
        return None
    pieces, total = [content], len(content)
    while total <= MAX_BYTES and (piece := os.read(descriptor, 1 << 20)):
        pieces.append(piece)
        total += len(piece)
    return b"".join(pieces) if total <= MAX_BYTES else None


def matching_paths(root, expression, selection, deadline, limit):
    """Files that match, in order; at least the first `limit` of them, and one more when there are more."""
    found = None
    if expression.for_ripgrep is not None:
        found = by_ripgrep(root, expression.for_ripgrep, selection, deadline)
    if found is not None:
        return selection.kept(found)
    paths = selection.paths(deadline)
    count = 1 if len(paths) <= FEW_FILES else processors()
    shares = [[*_share(len(paths), turn, count)] for turn in range(count)]
    work = [lambda share=share: _matching(root, expression, paths, share, limit) for share in shares]
    return [paths[place] for place in sorted(sum(results_of(work, deadline), []))]


def _share(total, turn, count):
    for begin in range(turn * BLOCK, total, BLOCK * count):
        yield from range(begin, min(begin + BLOCK, total))


def _matching(root, expression, paths, share, limit):
    files, found = Files(root), []
    for place in share:
        content = files.read(paths[place])
        if content is not None and expression.is_in(content):
            found.append(place)
            if len(found) > limit:
                break
    return found


def by_ripgrep(root, pattern, selection, deadline):
    """The files that ripgrep finds; None when there is no ripgrep, or it cannot do this."""
    reader, writer = os.pipe()
    try:
        process = _started(root, _arguments(pattern, selection), writer)
    finally:
        os.close(writer)
    if process is None:
        os.close(reader)
        return None
    try:
        [output] = read_until([reader], deadline)
    except TooLate:
        kill(process)
        raise
    finally:
        os.close(reader)
        exit_code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    if exit_code not in (0, 1) and not output:
        return None
    return [os.fsdecode(path.removeprefix(b"./")) for path in output.split(b"\0") if path]


def _arguments(pattern, selection):
    """What ripgrep is told: never to leave out more than `selection` does."""
    arguments = ["rg", *ALWAYS]
    if selection.hidden:
        arguments.append("--hidden")
    if not selection.gitignore:
        arguments.append("--no-ignore")
    arguments += [f"--glob=!{glob}" for glob in selection.without]
    names = [glob.rstrip("/").rpartition("/")[2] for glob in selection.globs]
    if names and all(name not in ("", "**") and "/" not in name and "{" not in name for name in names):
        arguments += [f"--type-add=wanted:{name}" for name in names] + ["--type=wanted"]
    return [*arguments, f"--regexp={pattern}", "./"]


def _started(root, arguments, writer):
    os.fchdir(root)
    streams = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, writer, 1),
        (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
    ]
    try:
        return os.posix_spawnp("rg", arguments, os.environ, file_actions=streams)
    except OSError:
        return None
