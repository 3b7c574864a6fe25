"""Whether a repository names something that git would run: asked before anything in it is changed.

Rules:

- A repository is the person's own when they have approved the project, and it lies in the project, or the
  project is a worktree of it and both say so. Its hooks, filters and signing programs run, as they do in a
  terminal.
- In any other repository, a change is refused when it has a hook, a submodule, or a setting that is not known
  to be harmless. Nothing is switched off instead: a commit without its filters or hooks could hold secrets
  that they would have kept out.
- A `.git` that leads into another repository is refused, too: the change would be made there.
- What the person has configured for all repositories counts, hooks too, unless they lie in this one.
"""

import os
import re

from repository import refuse

MAX_INDEX_BYTES = 256 * 1024 * 1024
"""How much of the list of all files is looked at."""

MAX_NAMED = 5
"""How many names are told."""

NO = ("false", "no", "off", "0")

HARMLESS = {
    "core": {
        "repositoryformatversion", "filemode", "bare", "logallrefupdates", "ignorecase", "precomposeunicode",
        "symlinks", "autocrlf", "eol", "safecrlf", "quotepath", "abbrev", "longpaths", "protecthfs",
        "protectntfs", "untrackedcache", "compression", "sharedrepository", "trustctime", "checkstat",
        "sparsecheckout", "sparsecheckoutcone",
    },
    "user": {"name", "email", "useconfigonly"},
    "author": {"name", "email"},
    "committer": {"name", "email"},
    "remote": {"url", "pushurl", "fetch", "push", "prune", "prunetags", "tagopt", "mirror", "gh-resolved"},
    "branch": {"remote", "merge", "rebase", "pushremote", "description", "vscode-merge-base"},
    "init": {"defaultbranch"},
    "pull": {"rebase", "ff"},
    "push": {"default", "autosetupremote", "followtags"},
    "fetch": {"prune", "prunetags"},
    "rebase": {"autosquash", "autostash"},
    "merge": {"ff", "conflictstyle"},
    "rerere": {"enabled", "autoupdate"},
    "gc": {"auto", "autodetach"},
    "extensions": {"objectformat", "refstorage", "worktreeconfig"},
    "lfs": {"repositoryformatversion"},
}  # fmt: skip
"""Sections, and their settings that name nothing to run and nothing to connect to."""


def require_none(repository):
    """Refuse to change a repository that is not the person's own and names something to run."""
    require_hooks_seen(repository)
    if is_own(repository):
        return
    common, top = repository.place("--git-common-dir"), repository.place("--show-toplevel")
    if not is_below(common, top) and not is_worktree(repository, common):
        refuse("expected the repository of this project, found a .git that leads to another one")
    names = [*settings(repository), *hooks(repository, common, top), *submodules(repository)]
    if names:
        refuse_named(names)


def require_hooks_seen(repository):
    """Refuse a repository whose hooks lie where a tool sees nothing: git would go on without them."""
    directory = os.path.join(repository.place("--git-common-dir"), "hooks")
    if os.path.islink(directory) and not os.path.exists(directory):
        if not is_approved():
            refuse_named(["hooks behind a link"])
        refuse("expected hooks that a tool can see, found a link that leads elsewhere: commit in a terminal")


def require_no_other_repository(repository, new):
    """Refuse new files of which one is a repository: git would go into it."""
    if any(path.endswith(b"/") for path in new.split(b"\0")) and not is_own(repository):
        refuse_named(["a repository in it"])


def is_own(repository):
    """Whether the person has approved the project, and its repository lies in it, or has it as a worktree."""
    common = repository.place("--git-common-dir")
    return is_approved() and (is_below(common, repository.project) or is_worktree(repository, common))


def is_approved():
    """Whether the person has approved the project: else a tool is started in another directory."""
    return not os.environ.get("RYE_WORKING_DIRECTORY")


def refuse_named(names):
    """Say what would run, and what can be done."""
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    shown = ", ".join(names[:MAX_NAMED]) + more
    if is_approved():
        found = f"found one around it that names what git runs ({shown})"
        refuse(f"expected a repository in the project, {found}: commit in a terminal")
    found = f"found one whose repository names what git runs ({shown})"
    refuse(f"expected a project that you have approved, {found}: rye trust project")


def settings(repository):
    """Keys that are not known to be harmless, without what stands between section and name."""
    for key, value in repository.settings():
        section, name = key.partition(".")[0], key.rpartition(".")[2]
        if key == "commit.gpgsign" and value.lower() in NO:
            continue
        if name not in HARMLESS.get(section, ()) or (key.count(".") > 1) != (section in ("remote", "branch")):
            yield f"{section}.{name}"[:40]


def hooks(repository, common, top):
    """The hooks that came with a repository."""
    directory = repository.place("--git-path", "hooks")
    if directory != os.path.realpath(os.path.join(common, "hooks")) and not is_below(directory, top):
        return
    try:
        names = sorted(os.listdir(directory))
    except (NotADirectoryError, FileNotFoundError):
        return
    for name in names:
        if not name.endswith(".sample") and os.access(os.path.join(directory, name), os.X_OK):
            yield f"hooks/{name}" if re.fullmatch("[a-z-]{1,30}", name) else "a hook"


def submodules(repository):
    """That there is a submodule: git would go by the settings of that, which nobody has looked at."""
    entries = repository.ask("ls-files", "--stage", "-z", limit=MAX_INDEX_BYTES).split(b"\0")
    if any(entry.startswith(b"160000 ") for entry in entries):
        yield "a submodule"


def is_worktree(repository, common):
    """Whether the project is a worktree of a repository, and that says so, too."""
    own = repository.place("--absolute-git-dir")
    if os.path.dirname(own) != os.path.join(common, "worktrees") or os.path.basename(common) != ".git":
        return False
    try:
        with open(os.path.join(own, "gitdir"), encoding="utf-8") as file:
            back = file.read(4096).removesuffix("\n")
    except (OSError, ValueError):
        return False
    return os.path.realpath(os.path.join(own, back)) == os.path.join(repository.project, ".git")


def is_below(path, directory):
    """Whether a real path is a real directory, or lies below it."""
    return path == directory or path.startswith(directory.rstrip("/") + "/")
