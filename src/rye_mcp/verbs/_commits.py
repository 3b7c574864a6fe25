"""Records which files the last commits say a person signed, before an agent does anything that may commit.

If that cannot be recorded, the agent is refused. A repository that cannot be read stops nothing; but where a
limit is the reason, agents sign nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from rye_mcp.errors import RyeError
from rye_mcp.items import DEPENDENCY_MANIFEST_NAME, ItemFile, Space, SpaceName, parse_relative_path
from rye_mcp.spaces import DIRECTORY_NAME
from rye_mcp.trust import signature
from rye_mcp.trust.dependency_manifest import manifest_file
from rye_mcp.trust.listing import unsigned_content
from rye_mcp.trust.signers import COMMITTED, Fact, commit_fact
from rye_mcp.verbs.context import Context

if TYPE_CHECKING:
    from rye_mcp.verbs.git_objects import LastCommit

__all__ = ["content_digest", "note_commits", "unnoted_commits"]

_UNKNOWN: Final = "-"


def unnoted_commits(context: Context) -> list[LastCommit]:
    """The last commits that an agent's call has to wait for: those that were not looked at yet."""
    if context.is_person or context.project is None:
        return []
    from rye_mcp.verbs.git_objects import last_commits

    noted = context.trust.noted_commits
    return [each for each in last_commits(context.project, DIRECTORY_NAME) if each.name not in noted]


def note_commits(commits: Iterable[LastCommit], context: Context) -> None:
    """Write down what these commits say of persons."""
    for commit in commits:
        _note(commit, context)
        context.trust.noted_commits.add(commit.name)


def content_digest(file: ItemFile) -> str | None:
    """The hash of the content without its signature line; None where there is nothing else."""
    try:
        content = unsigned_content(file)
    except RyeError:
        content = file.content
    return signature.content_digest(content) if content.strip() else None


def _note(commit: LastCommit, context: Context) -> None:
    own, *others = context.trust.records_of(SpaceName.PROJECT)
    known = own.all_facts()[1].commits
    if commit.name in known:
        return
    space = context.spaces.space(SpaceName.PROJECT)
    agents: dict[str, bool] = {}
    facts: list[Fact] = []
    cut: list[str] = []
    for path, content in commit.files(_is_signed_path, known, lambda: cut.append(commit.name)):
        file = _as_file(space, path, content)
        fact = None if file is None else _claim_of(file, agents, context)
        if fact is not None:
            facts.append(fact)
    for record in (own, *others):
        try:
            record.write(facts)
        except RyeError as exc:
            if exc.code != "too_large":
                raise
    if cut:
        context.trust.unread_commits.add(commit.name)  # for as long as this program runs
    else:
        own.note(commit_fact(commit.name))


def _claim_of(file: ItemFile, agents: dict[str, bool], context: Context) -> Fact | None:
    """That a file of a commit carries a signature which is no agent's; None for one that carries none."""
    if signature.MARKER not in file.content:
        return None
    owner = "somebody whose signature is damaged"
    key_id = _UNKNOWN
    try:
        key_id = signature.parse(file, signature.locate(file)).fingerprint
    except RyeError as exc:
        if exc.code == "unsigned":
            return None
    else:
        if key_id not in agents:
            agents[key_id] = context.trust.is_agents(key_id, file.space.name)
        if agents[key_id]:
            return None
        owner = f"the key {key_id}"
    digest = content_digest(file) or _UNKNOWN
    return Fact.of(file, digest, kind=COMMITTED, key_id=key_id, owner=owner)


def _is_signed_path(path: str) -> bool:
    try:
        parse_relative_path(path)
    except RyeError:
        return path.endswith(f"/{DEPENDENCY_MANIFEST_NAME}")
    return True


def _as_file(space: Space, path: str, content: bytes) -> ItemFile | None:
    directory, _, name = path.rpartition("/")
    try:
        if name == DEPENDENCY_MANIFEST_NAME:
            return manifest_file(space, directory, content)
        item_type, item_id, extension = parse_relative_path(path)
    except RyeError:
        return None
    return ItemFile(space, item_type, item_id, extension, space.root / path, content)
