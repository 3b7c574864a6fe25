"""What the tools for git share: how git is asked, and how its answers are read.

Rules:

- Reading runs git and nothing else. A repository can name programs in many places (hooks, external diffs,
  text converters, filters, a file system monitor, the fetching of missing objects, the checking of
  signatures), and whoever unpacked it did not choose them. Each is switched off; filters, which have no
  switch, one by one. What changes the repository is refused instead: see `named_programs`.
- Files outside of the repository that its own configuration names (`core.attributesFile=/dev/zero`) are not
  read, only those that the person names. git gets `MAX_MEMORY_BYTES` to read anything, and fails with more.
- git is started in `/`, and goes to the project by itself: no file there chooses which git it is.
- Nothing that a caller says is an option: revisions are resolved to the ids of commits first, and paths stand
  behind `--`, as they are spelled (a `*` is a star), and do not lead out of the project.
- Nobody is asked for anything: no editor, no pager, no password. Output has a limit, and the tools say how
  long they may take.
- What is wrong ends the tool with one sentence on standard error.
"""

import contextlib
import os
import re
import resource
import subprocess
import tempfile

MAX_PATCH_BYTES = 256 * 1024
"""How much of a patch, or of a file, is given out."""

MAX_LIST_BYTES = 8 * 1024 * 1024
"""How much of a list is read."""

MAX_LISTED = 500
"""How many files of a list are given out."""

MAX_TEXT = 16 * 1024
"""How many characters of a message, or of its first line, are given out."""

MAX_MESSAGE_BYTES = 16 * 1024
"""How much of what git says is passed on, from its end."""

MAX_MEMORY_BYTES = 2 * 1024 * 1024 * 1024
"""How much memory git may take to read, beside the files that it maps."""

KEPT_VARIABLES = (
    "GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL",
    "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_CEILING_DIRECTORIES",
    # In a cell, the repository and its files are mounts of their own.
    "GIT_DISCOVERY_ACROSS_FILESYSTEM",
)  # fmt: skip
"""The variables of git that say who and where the person is; all others are dropped."""

QUIET = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_EDITOR": ":",
    "GIT_PAGER": "cat",
    "GIT_ASKPASS": "true",
    "SSH_ASKPASS_REQUIRE": "never",
    "GIT_LITERAL_PATHSPECS": "1",
    "LC_ALL": "C.UTF-8",
    "LANGUAGE": "",
}

READING = {
    "GIT_OPTIONAL_LOCKS": "0",
    # No protocol has this name: objects that are missing are not fetched.
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_NO_LAZY_FETCH": "1",
}

PLAIN = {
    "core.quotePath": "false",
    "color.ui": "false",
    "safe.bareRepository": "explicit",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "submodule.recurse": "false",
    "log.showRoot": "true",
    "log.follow": "false",
    "i18n.commitEncoding": "UTF-8",
}

HARMLESS = {
    "core.fsmonitor": "false",
    "core.hooksPath": "/dev/null",
    "core.sshCommand": "false",
    "diff.external": "",
    "log.showSignature": "false",
    "status.submoduleSummary": "false",
    "log.diffMerges": "first-parent",
    "log.mailmap": "false",
}

OWN_SCOPES = ("local", "worktree")
"""The scopes of settings that come with a repository, and not from the person."""

NAMED_FILES = {"core.attributesfile": "attributes", "core.excludesfile": "ignore"}
"""Settings that name a file to read, and how that is called among the person's files when none does."""

NAMING = r"^(filter\..*\.(clean|smudge|process|required)|" + "|".join(map(re.escape, NAMED_FILES)) + ")$"
"""The settings that are switched off where the repository itself makes them."""

WITHOUT_FILES = frozenset({"config", "rev-parse", "cat-file", "ls-tree", "branch", "ls-files"})
"""What applies no filter and no attribute to a file."""

DIFF = (
    "--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=dirty", "--submodule=short",
    "--src-prefix=a/", "--dst-prefix=b/", "-O/dev/null", "--find-renames",
)  # fmt: skip
"""Options of everything that compares. A submodule is not looked into: git would follow its configuration."""

OF_COMMIT = ("show", "--format=", "--diff-merges=first-parent", "--no-show-signature", "--no-notes")
"""What a commit changed, against its first parent; its id follows."""

STATES = {
    "A": "added", "C": "copied", "D": "deleted", "M": "modified", "R": "renamed", "T": "type_changed",
    "U": "conflict",
}  # fmt: skip


def require_seen(project):
    """Refuse a project whose `.git` is a file that leads to where a tool sees nothing."""
    while not os.path.lexists(os.path.join(project, ".git")) and project != os.path.dirname(project):
        project = os.path.dirname(project)
    try:
        with open(os.path.join(project, ".git"), encoding="utf-8", errors="surrogateescape") as file:
            kind, _, place = file.read(4096).strip().partition(": ")
    except OSError:
        return
    if kind == "gitdir" and not os.path.exists(os.path.join(project, place)):
        refuse("expected the repository of this project, found a .git that leads to another one")


class Repository:
    """The repository that a project is in, seen from the project: paths are relative to it."""

    def __init__(self, project):
        if not project:
            refuse("expected a project, found none")
        self._project = project
        self.project = os.path.realpath(project)
        self._switched_off = None
        require_seen(self.project)
        where = self.ask("rev-parse", "--is-inside-work-tree", "--show-prefix").decode(errors="replace")
        inside, _, prefix = where.partition("\n")
        if inside != "true":
            refuse("expected a repository whose files the project is, or is among, found files elsewhere")
        self.prefix = prefix.removesuffix("\n")

    def ask(self, *arguments, limit=MAX_LIST_BYTES):
        """What git prints for a question, when it has an answer; more than the limit is refused."""
        output, cut = self.ask_for_much(*arguments, limit=limit)
        if cut:
            refuse(f"expected at most {limit} bytes from git {arguments[0]}, found more: name paths")
        return output

    def ask_for_much(self, *arguments, limit=MAX_PATCH_BYTES):
        """The same, as far as the limit; and whether it was cut."""
        switched_off = {} if arguments[0] in WITHOUT_FILES else self._named_by_the_repository()
        environment = self._environment(READING, PLAIN | HARMLESS | switched_off)
        code, output, message, cut = self._run(arguments, environment, limit)
        if code and not cut:
            refuse(message or f"expected git {arguments[0]} to succeed, found exit code {code}")
        return output, cut

    def try_to(self, *arguments, given=b""):
        """Let git change something, as the person's configuration says; exit code and what it says."""
        environment = self._environment({}, PLAIN)
        code, output, message, _ = self._run(arguments, environment, MAX_LIST_BYTES, given, memory=None)
        return code, message or output.decode(errors="replace")[-MAX_MESSAGE_BYTES:]

    def settings(self):
        """The repository's own settings, of files that it includes too: pairs of a key and its value."""
        output = self.ask("config", "--list", "--show-scope", "--includes", "-z")
        texts = texts_of(output)
        own = [text for scope, text in zip(texts[::2], texts[1::2], strict=True) if scope in OWN_SCOPES]
        return [(key, value) for key, _, value in (text.partition("\n") for text in own)]

    def place(self, *question):
        """The real path that git answers, or says relative to the project, as the person configures it."""
        code, output, message, _ = self._run(
            ("rev-parse", *question), self._environment(READING, PLAIN), MAX_MESSAGE_BYTES
        )
        if code:
            refuse(message or f"expected git to know {question[0]}, found exit code {code}")
        return os.path.realpath(os.path.join(self._project, os.fsdecode(output.removesuffix(b"\n"))))

    def commit_id(self, revision):
        """The id of the commit that a revision means."""
        found = self._id_of(revision)
        if found is None:
            refuse(f"expected a revision that is there, found {revision!r:.200}")
        return found

    def is_time(self, text):
        """Whether git knows which time a text means."""
        question = ("config", "--type=expiry-date", f"--default={text}", "--get", "rye.no-such-time")
        return self._run(question, self._environment(READING, PLAIN), MAX_MESSAGE_BYTES)[0] == 0

    def head(self):
        """The id of the last commit; None before the first one."""
        return self._id_of("HEAD")

    def commits(self, *arguments, longest=MAX_TEXT):
        """The commits that `git log` or `git show` names, as far as they fit; and whether there were more."""
        fields = "%H%x00%P%x00%an%x00%ae%x00%aI%x00%cI%x00%s%x00%b"
        output, cut = self.ask_for_much(
            *arguments[:1], "-z", f"--format=format:{fields}", "--encoding=UTF-8",
            "--no-show-signature", "--no-notes", "--no-color", *arguments[1:], limit=MAX_LIST_BYTES,
        )  # fmt: skip
        texts = output.decode(errors="replace").split("\0")
        last = len(texts) - (8 if cut else 7)
        found = [commit_of(texts[start : start + 8], longest) for start in range(0, last, 8)]
        if cut and not found:
            refuse(f"expected a commit of at most {MAX_LIST_BYTES} bytes, found a longer one")
        return found, cut

    def changes(self, *arguments):
        """The files that differ, with how many lines, of a question that compares; and how many more."""
        raw = texts_of(self.ask(*arguments[:1], *DIFF, "--relative", "--raw", "-z", *arguments[1:]))
        counts = numbers_of(
            texts_of(self.ask(*arguments[:1], *DIFF, "--relative", "--numstat", "-z", *arguments[1:]))
        )
        found = []
        while raw and len(found) < MAX_LISTED:
            state = raw.pop(0).rpartition(" ")[2][:1]
            before = raw.pop(0) if state in ("R", "C") else None
            path = raw.pop(0)
            change = {"path": path, "state": STATES.get(state, "unknown")}
            found.append(change | ({"from": before} if before else {}) | counts.get(path, {}))
        return {"files": found} | left_out(len(counts) - len(found))

    def patch(self, *arguments, context=3):
        """The patch of a question that compares, cut at the end of a line; and whether it was cut."""
        output, cut = self.ask_for_much(
            *arguments[:1], *DIFF, "--relative", "--patch", f"--unified={context}", *arguments[1:]
        )
        return (output[: output.rfind(b"\n") + 1] if cut else output).decode(errors="replace"), cut

    def inside(self, paths):
        """Paths as they were given, when they stay in the project; all of it when there are none."""
        for path in paths:
            plain = os.path.normpath(path)
            if not path or "\0" in path or os.path.isabs(path) or plain.split("/")[0] == "..":
                refuse(f"expected a path in the project, relative to it, found {path!r:.200}")
        return list(paths) or ["."]

    def relative(self, path):
        """A path below the top of the repository as one relative to the project; None when it is outside."""
        return path[len(self.prefix) :] if path.startswith(self.prefix) else None

    def _id_of(self, revision):
        # With a ^ before it, it would be all commits but those; an option begins with a dash.
        if revision.startswith(("-", "^")) or not revision.isprintable():
            refuse(f"expected a revision, found {revision!r:.200}")
        question = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
        environment = self._environment(READING, PLAIN | HARMLESS)
        code, output, _, _ = self._run(question, environment, MAX_MESSAGE_BYTES)
        return None if code else output.decode().strip()

    def _named_by_the_repository(self):
        """What switches off each filter and each file that the repository itself names; those that the
        person names stay.
        """
        if self._switched_off is None:
            environment = self._environment(READING, PLAIN | HARMLESS)
            question = ("config", "-z", "--show-scope", "--includes", "--get-regexp", NAMING)
            _, output, _, cut = self._run(question, environment, MAX_LIST_BYTES)
            if cut:
                refuse("expected a configuration of a few filters, found more than can be switched off")
            texts = texts_of(output)
            self._switched_off = switched_off(zip(texts[::2], texts[1::2], strict=True))
        return self._switched_off

    def _environment(self, variables, configuration):
        """The variables that git gets. As variables, names of a configuration may hold any character."""
        own = {name: text for name, text in os.environ.items() if not name.startswith("GIT_")}
        own |= {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
        own |= QUIET | variables | {"GIT_CONFIG_COUNT": str(len(configuration))}
        for number, (key, value) in enumerate(configuration.items()):
            own |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
        for name in ("RYE_RESULT_FD", "GPG_TTY"):
            own.pop(name, None)
        return own

    def _run(self, arguments, environment, limit, given=b"", memory=MAX_MEMORY_BYTES):
        """Exit code, output up to a limit, what stands on standard error, and whether output was cut."""
        with tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as said:
            source.write(given)
            source.seek(0)
            try:
                process = subprocess.Popen(
                    ["git", "-C", self._project, "--no-pager", *arguments], cwd="/", env=environment,
                    stdin=source, stdout=subprocess.PIPE, stderr=said, start_new_session=True,
                )  # fmt: skip
            except FileNotFoundError:
                refuse("expected git on the PATH, found none")
            if memory is not None:
                with contextlib.suppress(OSError):  # it may have ended already
                    resource.prlimit(process.pid, resource.RLIMIT_DATA, (memory, memory))
            output = process.stdout.read(limit + 1)
            cut = len(output) > limit
            if cut:
                process.kill()
            process.stdout.close()
            code = process.wait()
            said.seek(max(0, said.seek(0, os.SEEK_END) - MAX_MESSAGE_BYTES))
            return code, output[:limit], said.read().decode(errors="replace").strip(), cut


def switched_off(settings):
    """What replaces the settings of a repository that name a program or a file: pairs of a scope and a text."""
    off, of_person = {}, {}
    for scope, text in settings:
        key, _, value = text.partition("\n")
        if scope not in OWN_SCOPES:
            of_person[key] = value
        elif key in NAMED_FILES:
            off[key] = own_file(NAMED_FILES[key])
        else:
            driver = key.rpartition(".")[0]
            off |= {f"{driver}.{each}": "" for each in ("clean", "smudge", "process")}
            off[f"{driver}.required"] = "false"
    return off | {key: value for key, value in of_person.items() if key in NAMED_FILES and key in off}


def own_file(name):
    """Where git looks for a file of the person when no setting names one."""
    return os.path.join(os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config"), "git", name)


def commit_of(texts, longest):
    """A commit out of the fields that were asked for."""
    commit, parents, name, email, written, committed, subject, body = texts
    return {
        "commit": commit,
        "parents": parents.split(),
        "author": {"name": name, "email": email},
        "date": written,
        "committed": committed,
        "subject": shortened(subject, longest),
        "body": shortened(body.strip(), longest),
    }


def shortened(text, longest):
    """A text without its end, when it is too long; a mark says so."""
    over = len(text) - longest
    return text if over <= 0 else f"{text[:longest]}\n[… {over} more characters …]"


def left_out(count):
    """What an answer says of files that are beyond the limit."""
    return {"left_out": count} if count > 0 else {}


def numbers_of(texts):
    """Path → how many lines were added and removed, or that it is binary."""
    found = {}
    while texts:
        added, removed, path = texts.pop(0).split("\t", 2)
        if not path:  # a rename: where from and where to follow
            path = texts[1]
            del texts[:2]
        binary = added == "-"
        found[path] = {"binary": True} if binary else {"added": int(added), "removed": int(removed)}
    return found


def texts_of(output):
    """The parts of a list that is separated by NUL."""
    return [part.decode(errors="replace") for part in output.split(b"\0")][:-1]


def refuse(sentence):
    """End the tool with a sentence."""
    raise SystemExit(sentence)
