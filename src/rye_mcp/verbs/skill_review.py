"""What a person should look at in a skill before signing it: each finding with its file and line.

The review finds; it decides nothing, and what it does not find may still be harmful. It reads bytes alone,
takes no longer than their length allows, and shows excerpts in which nothing hides.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from types import MappingProxyType
from typing import Any, Final

from lilux._dataclasses import dataclass
from rye_mcp.items import SKILL_TEXT, ItemFile
from rye_mcp.metadata import front_matter
from rye_mcp.visible import find_hidden, visible

__all__ = ["KINDS", "MAX_FINDINGS", "Finding", "Review", "review"]

MAX_FINDINGS: Final = 1_000
"""How many findings a review has; it says how many there are beyond."""

MAX_LINE: Final = 4_000
"""How many characters of a line are looked at together; a longer line is a finding."""

_SHOWN: Final = 100

KINDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "hidden_characters": "characters that nobody sees and a model reads",
        "html_comment": "a comment that no rendering shows and a model reads",
        "hidden_text": "text that is there for a model and not for a person who looks at the page",
        "command_line": "a command that a client runs while it reads the text",
        "pipe_to_shell": "a download that is run unseen",
        "encoded": "text in base64 or as escapes, whose meaning nobody sees",
        "hook": "what a client or git runs by itself at an event",
        "runs_by_itself": "a file that another program runs or obeys by itself",
        "secrets": "a place where keys and passwords are kept",
        "addresses_the_agent": "words that want to change what an agent was told",
        "allowed_tools": "tools that it asks for; rye-mcp grants none",
        "package": "a package that is fetched, and may run what it likes",
        "url": "an address",
        "script": "a program",
        "binary": "a file that is no text, which nobody has read",
        "long_line": "a line too long to read",
        "nested_skill": "a skill inside the skill",
    }
)
"""What is found, and why it is worth a look; the gravest first."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One place to look at; `line` is None for a whole file."""

    kind: str
    file: str
    line: int | None = None
    text: str = ""

    @property
    def where(self) -> str:
        """The file, and the line in it."""
        return self.file if self.line is None else f"{self.file}:{self.line}"

    def as_dict(self) -> dict[str, Any]:
        """Return it as data."""
        known = {"kind": self.kind, "file": self.file, "line": self.line, "text": self.text or None}
        return {name: value for name, value in known.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Review:
    """What was found in a skill, the gravest first, and how much more there is of each kind."""

    findings: tuple[Finding, ...]
    counts: Mapping[str, int]

    @property
    def summary(self) -> str:
        """How often each kind was found, in one line."""
        return ", ".join(f"{count} {kind}" for kind, count in self.counts.items())

    def as_dict(self) -> dict[str, Any]:
        """Return it as data."""
        return {"counts": dict(self.counts), "findings": [each.as_dict() for each in self.findings]}


def review(file: ItemFile, contents: Mapping[str, bytes]) -> Review:
    """Look at all files of a skill, by their paths."""
    counts: Counter[str] = Counter()
    by_kind: dict[str, list[Finding]] = {kind: [] for kind in KINDS}
    for finding in _all(file, contents):
        counts[finding.kind] += 1
        if len(by_kind[finding.kind]) < MAX_FINDINGS:
            by_kind[finding.kind].append(finding)
    in_order = (finding for found in by_kind.values() for finding in found)
    return Review(
        tuple(islice(in_order, MAX_FINDINGS)), {kind: counts[kind] for kind in KINDS if counts[kind]}
    )


def _all(file: ItemFile, contents: Mapping[str, bytes]) -> Iterator[Finding]:
    for path, content in sorted(contents.items()):
        yield from _of_name(path, content)
        try:
            text = content.decode("utf-8")
        except UnicodeDecodeError:
            yield Finding("binary", path, text=f"{len(content)} bytes")
            continue
        if "\0" in text:
            yield Finding("binary", path, text=f"{len(content)} bytes")
            continue
        yield from _of_text(path, text)
    if (asked := front_matter(file).get("allowed-tools")) is not None:
        line = _line_of(contents.get(SKILL_TEXT, b""), b"allowed-tools")
        yield Finding("allowed_tools", SKILL_TEXT, line, _excerpt(str(asked)))


def _line_of(content: bytes, word: bytes) -> int | None:
    return next((number for number, line in enumerate(content.split(b"\n"), 1) if word in line), None)


# --- by its name ---

_BY_ITSELF: Final = re.compile(
    r"(?:conftest\.py|setup\.py|sitecustomize\.py|usercustomize\.py|.*\.pth|binding\.gyp|build\.rs|\.envrc|\.npmrc"
    r"|\.yarnrc(?:\.yml)?|\.pypirc|\.pre-commit-config\.yaml|Makefile|GNUmakefile|Justfile|\.mise\.toml"
    r"|rust-toolchain\.toml|\.mcp\.json|devcontainer\.json|tasks\.json|noxfile\.py|tox\.ini|pytest\.ini|setup\.cfg"
    r"|pyproject\.toml|(?:CLAUDE|AGENTS?|GEMINI|copilot-instructions)(?:\.local)?\.md|\.(?:cursor|windsurf|cline)rules"
    r"|\.git(?:attributes|modules|config)|\.(?:bash|zsh)(?:rc|env|_profile)|\.(?:z?profile|inputrc)|.*\.desktop"
    r"|authorized_keys)",
    re.IGNORECASE,
)
_OF_HOOKS: Final = frozenset({"hooks", ".husky", ".githooks", ".claude", ".cursor", ".codex", ".vscode"})
_SCRIPTS: Final = re.compile(
    r".*\.(?:py|sh|bash|zsh|js|mjs|cjs|ts|rb|pl|php|lua|ps1|bat|cmd|exe)", re.IGNORECASE | re.DOTALL
)
_LIFECYCLE: Final = (
    "preinstall",
    "install",
    "postinstall",
    "prepare",
    "prepublish",
    "preprepare",
    "postprepare",
)


def _of_name(path: str, content: bytes) -> Iterator[Finding]:
    *above, name = path.split("/")
    if name == SKILL_TEXT and above:
        yield Finding("nested_skill", path)
    if _BY_ITSELF.fullmatch(name):
        yield Finding("runs_by_itself", path)
    if not _OF_HOOKS.isdisjoint(part.lower() for part in above) or name.lower() == "hooks.json":
        yield Finding("hook", path)
    if _SCRIPTS.fullmatch(name) or content.startswith(b"#!"):
        yield Finding("script", path)
    if name == "package.json":
        yield from _lifecycle(path, content)


def _lifecycle(path: str, content: bytes) -> Iterator[Finding]:
    """The scripts of a package that its installation runs."""
    try:
        data = json.loads(content)
    except (ValueError, RecursionError):
        yield Finding("runs_by_itself", path, text="no JSON")
        return
    scripts = data.get("scripts") if isinstance(data, dict) else None
    if not isinstance(scripts, dict):
        return
    for name in _LIFECYCLE:
        if name in scripts:
            line = _line_of(content, f'"{name}"'.encode())
            yield Finding("runs_by_itself", path, line, _excerpt(f"{name}: {scripts[name]}"))


# --- by its lines ---

_RUNS: Final = (
    r"(?:(?:sudo|env|nohup|exec)\s+)?(?:-\w+\s+){0,4}(?:\w{1,40}=\S{0,80}\s+){0,4}(?:/\S{1,40}/)?"
    r"(?:(?:ba|z|da|k|fi)?sh|python[\d.]*|node|perl|ruby|iex|invoke-expression)\b"
)
"""What runs what comes through a pipe."""

_TO_THE_AGENT: Final = re.compile(
    r"\b(?:ignore|disregard|forget)\s{1,9}(?:all\s{1,9}|any\s{1,9})?(?:of\s{1,9})?(?:the\s{1,9}|your\s{1,9}|my\s{1,9})?"
    r"(?:previous|prior|above|earlier|other|existing|system)\s{1,9}(?:instructions?|prompts?|rules|messages)"
    r"|\b(?:do\s{1,9}not|don't|never)\s{1,9}(?:tell|inform|mention|show|reveal)\s{1,9}(?:this\s{1,9}|it\s{1,9})?"
    r"(?:to\s{1,9})?the\s{1,9}user"
    r"|\bwithout\s{1,9}(?:asking|telling|informing)\s{1,9}the\s{1,9}user"
    r"|--dangerously-skip-permissions|--no-verify\b|\bbypassPermissions\b",
    re.IGNORECASE,
)
"""Words to the agent, wherever a line ends and whatever is set off in them."""

_SET_OFF: Final = str.maketrans(dict.fromkeys("\n\r*_`>|", " "))
"""What may stand between words that are read as one sentence; each stays one character."""

_PATTERNS: Final[Mapping[str, re.Pattern[str]]] = MappingProxyType(
    {
        "command_line": re.compile(r"!`[^`\n]{1,400}`|^\s{0,20}```!"),
        "hidden_text": re.compile(
            r"^\s{0,3}\[[^\]\n]{1,80}\]:\s{0,4}(?:#|<>)\s{0,4}[(\"'][^\n]{0,100}"
            r"|<[a-z][a-z0-9]{0,15}\b[^<>\n]{0,200}(?:\shidden\b|\b(?:display\s?:\s?none|visibility\s?:\s?hidden"
            r"|(?:font-size|opacity|height|width)\s?:\s?0|color\s?[:=]\s?[\"']?(?:white|transparent|#f{3,6}\b)))",
            re.IGNORECASE,
        ),
        "pipe_to_shell": re.compile(
            rf"\b(?:curl|wget|fetch|iwr|irm|invoke-webrequest|invoke-restmethod)\b[^\n]{{0,400}}\|\s{{0,20}}{_RUNS}"
            r"|\b(?:curl|wget)\b(?:[^\n;&]|&(?!&)){0,300}(?:;|&&)[^\n]{0,40}?(?:\bchmod\s|\b(?:ba|z|da)?sh\s|\bsource\s|(?:\s|^)\./"
            r"|\bpython[\d.]{0,4}\s|\bnode\s)"
            r"|(?:\b(?:ba|z|da)?sh|\bsource|\beval|\bpython[\d.]*|(?:^|\s)\.)\s[^\n]{0,80}(?:<\(|\$\(|`)\s*(?:curl|wget)\b"
            r"|\biex\b[^\n]{0,80}\b(?:irm|iwr|downloadstring)\b"
            r"|\b(?:exec|eval)\s?\([^\n]{0,120}\b(?:urlopen|requests\.get|fetch)\b",
            re.IGNORECASE,
        ),
        "encoded": re.compile(
            r"(?<![A-Za-z0-9+/_-])(?=[A-Za-z0-9+/_-]{0,120}[0-9])(?=[A-Za-z0-9+/_-]{0,120}[A-Z])[A-Za-z0-9+/_-]{120,}={0,2}"
            r"|(?<![0-9A-Fa-f])[0-9A-Fa-f]{130,}"
            r"|;base64,[A-Za-z0-9+/]{40}|\bbase64\b[^\n|;]{0,40}\s-{1,2}[A-Za-z]{0,4}[dD]|\bb64decode\b|\batob\s*\("
            r"|['\"]base64['\"]|\bFromBase64String\b|\bxxd\s[^\n|;]{0,40}-[a-z]{0,3}r|\bopenssl\s+enc\b"
            r"|\b(?:powershell|pwsh)\b[^\n|;]{0,80}\s-e(?:nc|ncodedcommand|c)?\b"
            r"|(?:\\x[0-9a-fA-F]{2}){16}|(?:\\u00[0-9a-fA-F]{2}){12}|(?:\\[0-7]{3}){16}"
        ),
        "hook": re.compile(
            r"\b(?:PreToolUse|PostToolUse|UserPromptSubmit|SessionStart|SubagentStop|PreCompact|core\.hooksPath"
            r"|core\.(?:sshCommand|fsmonitor|pager|editor)|credential\.helper|pre-commit install"
            r"|crontab\s+-|mcp\s+add"
            r"|systemctl\s+--user|launchctl\s+load|authorized_keys)(?![\w])|\.git/hooks/"
            r"|(?:~|\$HOME|\$\{HOME\})/\.(?:bash|zsh)(?:rc|env|_profile)\b|(?:~|\$HOME|\$\{HOME\})/\.z?profile\b"
        ),
        "secrets": re.compile(
            r"(?:~|\$HOME|\$\{HOME\}|%USERPROFILE%)/\.(?:ssh|aws|gnupg|kube|docker|netrc|npmrc|pypirc|config/gh|claude)\b"
            r"|\bid_(?:rsa|ed25519|ecdsa)\b|\.aws/credentials|/etc/shadow|\blogin\.keychain"
            r"|\bsecurity find-generic-password"
            r"|\bcat\s+[^\n]{0,40}\.env\b|\b(?:env|printenv)\s*(?:\||>)|\bgh\s+auth\s+token\b|\bgit\s+credential\s+fill\b"
        ),
        "package": re.compile(
            r"\b(?:npx|bunx|uvx|pipx run|pnpm dlx|yarn dlx|uv tool run)\s+[^\s|;&`]{1,100}"
            r"|\b(?:pip3?|npm|pnpm|yarn|gem|cargo|go|brew|uv pip)\s+(?:install|add|i)\s+"
            r"[^\s|;&`][^\n|;&`]{0,100}"
        ),
        "url": re.compile(r"\b(?:https?|ftp|ssh|git|wss?)://[^\s\"'<>)\]}`|]{1,300}"),
    }
)


_GOES_ON: Final = ("\\", "|", "&&")
"""How a line ends that is no whole command."""


def _of_text(path: str, text: str) -> Iterator[Finding]:
    yield from _comments(path, text)
    yield from _words_to_the_agent(path, text)
    urls: set[str] = set()
    for number, line in _lines(text):
        if len(line) > MAX_LINE:
            yield Finding("long_line", path, number, f"{len(line)} characters")
        for piece in _pieces(line):
            if (hidden := find_hidden(piece)) is not None:
                yield Finding("hidden_characters", path, number, f"U+{ord(piece[hidden]):04X}")
            for kind, pattern in _PATTERNS.items():
                for found in pattern.finditer(piece):
                    if kind != "url" or found[0] not in urls:
                        yield Finding(kind, path, number, _excerpt(found[0]))
                    urls.add(found[0])
                    if kind != "url":
                        break  # once a line is enough to look at it


def _words_to_the_agent(path: str, text: str) -> Iterator[Finding]:
    line, counted = 1, 0
    for found in _TO_THE_AGENT.finditer(text.translate(_SET_OFF)):
        line, counted = line + text.count("\n", counted, found.start()), found.start()
        yield Finding("addresses_the_agent", path, line, _excerpt(text[found.start() : found.end()]))


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines with their numbers; one that a shell goes on reading is one with the next."""
    begun, first = "", 0
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), start=1):
        first = first or number
        if line.rstrip().endswith(_GOES_ON) and len(begun) < MAX_LINE:
            begun += line.rstrip().removesuffix("\\") + " "
            continue
        yield first, begun + line
        begun, first = "", 0
    if begun:
        yield first, begun


def _pieces(line: str) -> Iterable[str]:
    """A line in pieces that overlap by as much as a finding is long."""
    if len(line) <= MAX_LINE:
        return (line,)
    return (line[start : start + MAX_LINE] for start in range(0, len(line), MAX_LINE - 500))


def _comments(path: str, text: str) -> Iterator[Finding]:
    start, line, counted = 0, 1, 0
    while (start := text.find("<!--", start)) >= 0:
        end = text.find("-->", start)
        end = len(text) if end < 0 else end
        line, counted = line + text.count("\n", counted, start), start
        yield Finding("html_comment", path, line, _excerpt(text[start + 4 : end].strip()))
        start = max(end, start + 4)


def _excerpt(text: str) -> str:
    shown = visible(text[:_SHOWN])
    return shown if len(text) <= _SHOWN else f"{shown}…"
