"""What tests of `rye/git` share: a project that is a repository, and its tools through the executor."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from rye_mcp.executor.results import ExecutionResult
from tests.runtime_workshop import Workshop
from tests.trust_world import World

__all__ = ["READING", "ask", "commit", "git", "refusal", "repository"]

READING = ("status", "diff", "log", "show")
WHO = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.org",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.org",
}


def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    """A project that is an empty repository, of somebody who has a name."""
    for name, value in WHO.items():
        monkeypatch.setenv(name, value)
    found = Workshop(World(tmp_path))
    (found.project / ".ai").mkdir(parents=True)
    git(found.project, "init", "--quiet", "--initial-branch=main")
    (found.project / ".git/info/exclude").write_text(".ai/\n")
    return found


def git(where: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=where, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def commit(workshop: Workshop, message: str, **files: str) -> str:
    """Write files (`a_txt` is `a.txt`) and commit everything; the id of the commit."""
    for name, text in files.items():
        (workshop.project / name.replace("_", ".")).write_text(text)
    git(workshop.project, "add", "--all")
    git(workshop.project, "commit", "--quiet", "--allow-empty", f"--message={message}")
    return git(workshop.project, "rev-parse", "HEAD")


async def ask(workshop: Workshop, tool: str, **parameters: Any) -> Any:
    return await workshop.data(f"rye/git/{tool}", parameters)


async def refusal(workshop: Workshop, tool: str, **parameters: Any) -> str:
    """What a tool says when it refuses: one sentence."""
    found: ExecutionResult = await workshop.run(f"rye/git/{tool}", parameters)
    assert (found.success, found.code) == (False, "tool_failed")
    return (found.stderr or "").strip()
