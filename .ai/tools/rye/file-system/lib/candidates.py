"""Which files of a directory have a line that matches: by ripgrep where it is there, else by this program.

Rules:

- Both ways give the same: `Selection` has the last word on which files are looked at, and whoever shows lines
  looks for them again. ripgrep only says in which files that is worth while.
- ripgrep counts where every `.gitignore` that it reads is a file of a sane size: it would read a link to
  /dev/zero, or a FIFO, for ever. It gets `MAX_MEMORY_BYTES`, since a line has no limit for it either. Where it
  does not count, this program looks by itself.
- Neither follows a link, nor finds anything in what is larger than 64 MiB or has a NUL byte in it. ripgrep is
  not told of the size: asking for it takes longer than all else that is done for a file.
- What is needed for rules and globs, and after ripgrep has begun, is imported there: a tool's own modules are
  read from their source in each call, and all of these take half as long as ripgrep does.
"""

import os

from answers import Refusal
from places import holds_keys, identity_of

__all__ = ["Selection", "matching_paths"]

FEW_FILES = 200
"""How many files one process looks at by itself."""

BLOCK = 32
"""How many files in a row a process takes."""

MAX_MEMORY_BYTES = 2 * 1024 * 1024 * 1024
"""How much memory ripgrep may take, beside the files that it maps."""

MAX_LEVELS = 201
"""How deep ripgrep goes, which is as deep as a walk does."""

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
    f"--max-depth={MAX_LEVELS}",
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
        self._taken = _rules_of(self.globs)
        self.left_out = _rules_of(self.without)
        self._prefix = "" if place.relative == "." else place.relative + "/"
        self._known, self._kept = {}, {}
        self._has_rules_above = gitignore and self._prefix != "" and _has_rules_above(project, place)

    def problems(self):
        """The globs that mean nothing."""
        globs = (*self.globs, *self.without)
        return [glob for glob in globs if glob.startswith("!") or not _rules_of([glob]).rules]

    def takes(self, path):
        """Whether the globs take a file."""
        return self._taken is None or bool(
            self._taken.verdict(path, path.rpartition("/")[2], is_directory=False)
        )

    def paths(self, deadline):
        """All files that are looked at, in order."""
        takes, entries = self.takes, self._walk(deadline).entries()
        return [path for path, entry, _ in entries if entry.is_file(follow_symlinks=False) and takes(path)]

    def is_for_ripgrep(self, deadline):
        """Whether ripgrep reads no file of rules that a walk would not read."""
        return not self.gitignore or self._walk(deadline).has_plain_rules()

    def _walk(self, deadline):
        from trees import Walk

        return Walk(
            self.project,
            self.place,
            hidden=self.hidden,
            gitignore=self.gitignore,
            left_out=self.left_out,
            deadline=deadline,
        )

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
        if holds_keys(self._prefix + path) or self._is_kept(path.rpartition("/")[0]):
            return False
        if self.left_out is None and not self._has_rules_above:
            return True
        for depth, name in enumerate(parts, 1):
            at, is_directory = "/".join(parts[:depth]), depth < len(parts)
            if self.left_out is not None and self.left_out.verdict(at, name, is_directory=is_directory):
                return False
            whole = self._prefix + at
            if self._has_rules_above and self._rules_in(whole.rpartition("/")[0]).leaves_out(
                whole, name, is_directory=is_directory
            ):
                return False
        return True

    def _is_kept(self, directory):
        """Whether a directory below the place, or one above it, is what rye-mcp keeps for the user."""
        known = self._kept.get(directory)
        if known is None:
            try:
                status = os.stat(self._prefix + directory or ".", dir_fd=self.project.descriptor)
            except OSError:
                return True
            above = bool(directory) and self._is_kept(directory.rpartition("/")[0])
            known = self._kept[directory] = above or identity_of(status) in self.project.kept
        return known

    def _rules_in(self, directory):
        """The rules for what is in a directory of the project, which is empty for the project itself."""
        from trees import Ignoring

        known = self._known.get(directory)
        if known is None:
            above = self._rules_in(directory.rpartition("/")[0]) if directory else Ignoring()
            prefix = f"{directory}/" if directory else ""
            known = self._known[directory] = above.below(prefix, self._read_rules(directory))
        return known

    def _read_rules(self, directory):
        from trees import rules_in

        try:
            with self.project.find(directory or ".", follow=False) as place:
                descriptor = place.open_directory()
        except (Refusal, OSError):
            return None
        try:
            return rules_in(descriptor)
        finally:
            os.close(descriptor)


def _rules_of(globs):
    """The rules that globs are; None for none."""
    if not globs:
        return None
    from patterns import Rules

    return Rules(globs)


def _has_rules_above(project, place):
    from trees import Ignoring

    return bool(Ignoring.above(project, place.relative).levels)


def matching_paths(root, expression, selection, deadline, limit, meanwhile):
    """Files that match, in order; at least the first `limit` of them, and one more when there are more.

    `meanwhile` is what can be done while ripgrep looks, and has to be done anyway.
    """
    found = None
    if expression.for_ripgrep is not None:
        found = by_ripgrep(root, expression.for_ripgrep, selection, deadline, meanwhile)
    if found is not None:
        return selection.kept(found)
    meanwhile()
    from children import processors, results_of

    paths = selection.paths(deadline)
    count = 1 if len(paths) <= FEW_FILES else processors()
    shares = [[*_share(len(paths), turn, count)] for turn in range(count)]
    work = [lambda share=share: _matching(root, expression, paths, share, limit) for share in shares]
    return [paths[place] for place in sorted(sum(results_of(work, deadline), []))]


def _share(total, turn, count):
    for begin in range(turn * BLOCK, total, BLOCK * count):
        yield from range(begin, min(begin + BLOCK, total))


def _matching(root, expression, paths, share, limit):
    from files import Files

    files, found = Files(root), []
    for place in share:
        content = files.read(paths[place])
        if content is not None and expression.is_in(content):
            found.append(place)
            if len(found) > limit:
                break
    return found


def by_ripgrep(root, pattern, selection, deadline, meanwhile):
    """The files that ripgrep finds; None when there is no ripgrep, or it cannot do this."""
    reader, writer = os.pipe()
    try:
        process = _started(root, _arguments(pattern, selection), writer)
    finally:
        os.close(writer)
    if process is None:
        os.close(reader)
        return None
    from children import kill, read_until

    try:
        _limit_memory(process)
        meanwhile()
        counts = selection.is_for_ripgrep(deadline)
        if counts:
            [output] = read_until([reader], deadline)
        else:
            kill(process)
    except BaseException:
        kill(process)
        raise
    finally:
        os.close(reader)
        exit_code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    if not counts or exit_code not in (0, 1, 2) or (exit_code == 2 and not output):
        return None
    return [os.fsdecode(path.removeprefix(b"./")) for path in output.split(b"\0") if path]


def _limit_memory(process):
    """Have ripgrep fail when it takes more than it needs."""
    import resource

    try:
        resource.prlimit(process, resource.RLIMIT_DATA, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    except OSError:  # it has ended already
        return


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
