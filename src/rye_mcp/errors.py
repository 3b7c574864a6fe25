"""Every way in which rye-mcp refuses or fails, in one table.

A `RyeError` has a stable code of this table, a message (expected …, found …, where) and a hint, which is the
one thing that fixes it. Details are JSON or paths, and never the content of a file, a key or a passphrase.

    >>> error = RyeError("unsigned", "expected a signature in line 1, found none", item_id="demo/hello")
    >>> error.hint
    'rye sign demo/hello'
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from lilux._dataclasses import dataclass

__all__ = ["ERRORS", "ErrorKind", "RyeError", "addressed_to_a_person", "kind", "printable"]


@dataclass(frozen=True)
class ErrorKind:
    """One row of the table: what a code means, and what usually fixes it."""

    sentence: str
    hint: str


ERRORS: Mapping[str, ErrorKind] = MappingProxyType(
    {
        # --- what a signature says ---
        "unsigned": ErrorKind("The item carries no signature.", "rye sign {item_id}"),
        "malformed_signature": ErrorKind(
            "There is a signature line, but not in its one form or place.",
            "remove the line from {path}, then: rye sign {item_id}",
        ),
        "content_changed": ErrorKind(
            "The content is not what was signed.", "look at what changed, then: rye sign {item_id}"
        ),
        "bad_signature": ErrorKind(
            "The signature was not made by this key for this item.",
            "look at where it came from, then: rye sign {item_id}",
        ),
        # --- who signed ---
        "untrusted_key": ErrorKind(
            "The signature is good, but its signer is not trusted.", "rye trust review"
        ),
        "out_of_scope": ErrorKind(
            "The signer is trusted, but not for this item.",
            "read it, and sign it if it is good: rye sign {item_id}",
        ),
        "revoked_key": ErrorKind(
            "The key that signed was revoked.",
            "look at the item, and sign it if it is good: rye sign {item_id}",
        ),
        "signer_changed": ErrorKind(
            "Somebody else has signed what a person vouched for before.",
            "look at what the agent changed, and sign it if it is good: rye sign {item_id}",
        ),
        "weak_key": ErrorKind("Anybody can sign for this key.", "rye keys rotate"),
        "no_key": ErrorKind("There is no key pair to sign with.", "rye keys generate"),
        "unusable_key": ErrorKind("The key pair cannot be used as it is.", "rye keys show"),
        "passphrase_required": ErrorKind(
            "The private key is encrypted, and its passphrase is missing or wrong.",
            "type it at a terminal, or set RYE_KEY_PASSPHRASE",
        ),
        "malformed_trust": ErrorKind("A file that says who is trusted is invalid.", "fix or remove {path}"),
        "unknown_key": ErrorKind("Nobody has proposed a key with this id.", "rye trust list"),
        "document_exists": ErrorKind(
            "Another document for this key exists already.",
            "look at {path}, then do it again with --replace",
        ),
        "document_changed": ErrorKind(
            "The document of a key is not the one that was looked at.", "rye trust review"
        ),
        "not_in_manifest": ErrorKind(
            "The system space has no such file.", "pip install --force-reinstall rye-mcp"
        ),
        # --- files ---
        "unsafe_path": ErrorKind(
            "A link, a device or a pipe stands where a file or a directory has to.",
            "put the file itself in its place: {path}",
        ),
        "unsafe_permissions": ErrorKind(
            "Others may change or read what only you may.", "chmod go-rwx {path}"
        ),
        "too_large": ErrorKind("The file is larger than the limit.", "make it smaller, or split it: {path}"),
        "not_text": ErrorKind(
            "The file is not the plain UTF-8 text that it has to be.", "save it as UTF-8, with LF: {path}"
        ),
        "read_failed": ErrorKind("The system could not read a file.", "ls -la {path}"),
        "write_failed": ErrorKind(
            "The system could not write a file; what was there before still stands.", "df -h {path}"
        ),
        # --- items ---
        "invalid_id": ErrorKind(
            "This is not an item id.", "segments of A-Z a-z 0-9 _ . - joined by /, such as demo/hello"
        ),
        "item_not_found": ErrorKind("No space has this item.", "rye list"),
        "ambiguous_item": ErrorKind("More than one file answers to this id.", "rename or remove one of them"),
        "item_exists": ErrorKind(
            "There is an item already where a copy would go.", "look at {path}, then copy it with --overwrite"
        ),
        "invalid_item": ErrorKind(
            "What the item says about itself is wrong.", "fix {path}, then: rye sign {item_id}"
        ),
        "not_runnable": ErrorKind("The item cannot run by itself.", "rye show {item_id}"),
        # --- chains ---
        "executor_not_found": ErrorKind("No space has the executor that the item names.", "rye list"),
        "executor_cycle": ErrorKind("A chain of executors comes back to itself.", "rye explain {item_id}"),
        "chain_too_deep": ErrorKind("A chain of executors is too long.", "rye explain {item_id}"),
        "chain_invalid": ErrorKind("Two elements of a chain do not fit.", "rye explain {item_id}"),
        # --- calls ---
        "invalid_parameters": ErrorKind(
            "The parameters are not what the tool takes.", "rye run {item_id} --help"
        ),
        "unknown_argument": ErrorKind("There is no such argument.", "leave it out"),
        "no_project": ErrorKind("There is no project here.", "rye init"),
        "person_required": ErrorKind("Only a person may do this.", "ask a person to do it at a terminal"),
        "not_named": ErrorKind(
            "Signing would include files that the signer neither named nor signed before.",
            "look at them; to sign all of them along: rye sign {item_id} --all-beside",
        ),
        "confirmation_required": ErrorKind(
            "A person has to agree first, and this client cannot ask one, or not show all that counts.",
            "ask a person to do it at a terminal",
        ),
        "confirmation_declined": ErrorKind(
            "The person who was asked did not agree.", "ask the person what to do instead"
        ),
        "question_not_found": ErrorKind("No such question waits for an answer.", "rye questions"),
        "confirmation_outdated": ErrorKind(
            "What was agreed to is not what would happen now, or was done already.",
            "call again, and have it confirmed again",
        ),
        "invalid_query": ErrorKind("The search cannot be understood.", "search for plain words"),
        # --- permissions ---
        "permissions_widened": ErrorKind(
            "The tool may do more now than was agreed to.",
            "look at what was added, and if it is good: rye trust tool {item_id}",
        ),
        "isolation_unavailable": ErrorKind(
            "This machine cannot enforce what the tool may do, and that is required.", "rye doctor"
        ),
        "denied_by_policy": ErrorKind(
            "The policy of the user or the project forbids this.",
            "look at isolation and rules in config/rye.yaml",
        ),
        # --- calls inside of calls ---
        "call_not_allowed": ErrorKind(
            "A program called a tool that it may not call.",
            "look at permissions.calls: rye explain {item_id}",
        ),
        "calls_too_deep": ErrorKind(
            "Programs call programs, more of them than is allowed.",
            "call the tool from a program further out",
        ),
        "too_many_calls": ErrorKind(
            "A program called more often than its limit allows.", "call less, or raise limits.calls"
        ),
        "too_many_calls_at_once": ErrorKind(
            "Too many calls of a program are unfinished.", "wait for some of them before you make more"
        ),
        "answers_too_long": ErrorKind(
            "The answers to a program's calls are longer than the limit.", "ask for less in each call"
        ),
        "approval_required": ErrorKind(
            "A person has to agree to a call that a program made, and nobody could be asked.",
            "ask a person to agree, then run it again",
        ),
        "replay_differs": ErrorKind(
            "A program, started again after a question, makes other calls than before.",
            "make the same calls each time, or those that need a person first",
        ),
        "malformed_call": ErrorKind(
            "A program asked for a call in a form that is no request.", "call through the client library"
        ),
        # --- servers and clients ---
        "code_refused": ErrorKind(
            "The page decides nothing without the code that the terminal of rye ui shows.",
            "ask for a new code on the page, and type what the terminal shows",
        ),
        "cannot_listen": ErrorKind(
            "The server cannot listen as it was asked to.", "rye-mcp --http with another address"
        ),
        "client_configuration": ErrorKind(
            "Changing the configuration of this client would lose something of it.",
            "rye install CLIENT --print, and put it in by hand",
        ),
        # --- lockfiles ---
        "lock_mismatch": ErrorKind("What would run is not what was locked.", "rye lock update {item_id}"),
        "lock_missing": ErrorKind("There is no lockfile, and one is required.", "rye lock update {item_id}"),
        "malformed_lockfile": ErrorKind("The lockfile cannot be read as one.", "rye lock update {item_id}"),
        # --- sharing ---
        "invalid_reference": ErrorKind(
            "This names no artifact of a registry, and no commit of a repository.",
            "registry.example.com/team/tools:1, or git+https://example.com/tools.git@COMMIT",
        ),
        "invalid_artifact": ErrorKind(
            "What arrived is not what was asked for, or no artifact of rye-mcp. Nothing was written.",
            "look at its source, and pull by digest",
        ),
        "artifact_not_found": ErrorKind(
            "The registry or the repository has nothing by this name.", "look at the reference"
        ),
        "registry_refused": ErrorKind("The registry did not let you in.", "docker login REGISTRY"),
        "registry_unreachable": ErrorKind(
            "The registry did not answer, or stopped in the middle.", "look at the network, then try again"
        ),
        "registry_failed": ErrorKind(
            "The registry answered with something that no registry should answer.", "try again later"
        ),
        "edited_locally": ErrorKind(
            "Files that would be replaced or removed were edited here, or came from elsewhere.",
            "look at them; to let them go: do it again with --overwrite",
        ),
        "malformed_sources": ErrorKind("The list of sources cannot be read.", "fix or remove {path}"),
        "sources_differ": ErrorKind(
            "The files of the project are not what its sources.toml pins.", "rye sync"
        ),
        "project_not_approved": ErrorKind(
            "You have not approved this project, so nothing that it lists is fetched, and nothing sent.",
            "look at it, then: rye trust project",
        ),
        # --- runs ---
        "spawn_failed": ErrorKind("The program could not be started.", "rye explain {item_id}"),
        "tool_failed": ErrorKind(
            "The tool ran, and failed.", "read its error output, then: rye log show {run_id}"
        ),
        "timeout": ErrorKind("The time limit was reached.", "give it more time with timeout"),
        "cancelled": ErrorKind("The run was cancelled.", "run it again"),
        "lost": ErrorKind("The supervisor died, and what it ran was ended.", "run it again"),
        # --- other machines ---
        "engine_unreachable": ErrorKind(
            "No worker of the engine could be reached, so nothing was sent.",
            "try it: rye engine check NAME",
        ),
        "no_fitting_node": ErrorKind(
            "The tool runs on another machine or not at all, and no engine fits.", "rye engine list"
        ),
        "workspace_unavailable": ErrorKind(
            "The files of the project that the tool works on can't come along.", "git add the files it needs"
        ),
        "node_overdue": ErrorKind(
            "The node did not end the call long after its time limit.",
            "see what it did before you run it again: rye node status",
        ),
        "node_refused": ErrorKind(
            "The node does not take this call.", "on the node, look at what it accepts: rye node status"
        ),
        "invalid_run_id": ErrorKind("This is not the id of a run.", "rye log"),
        "too_many_runs": ErrorKind("Too many runs are going on in the background.", "end some of them"),
        "malformed_receipt": ErrorKind("This is not a receipt.", "rye receipt export"),
        "receipt_not_found": ErrorKind("There is no receipt of this run.", "rye receipt verify --all"),
        "receipts_broken": ErrorKind(
            "Receipts were cut off, changed or removed.", "look at what is missing: rye receipt verify --all"
        ),
        "run_not_live": ErrorKind(
            "The run is over, or has no process of its own.", "rye log --status running"
        ),
        "run_not_found": ErrorKind("The log has no such run.", "rye log"),
        "output_not_found": ErrorKind(
            "Nothing is kept there that you may see: it was not cut, is gone, or belongs to another project.",
            "rye log show {run_id}",
        ),
        "code_switched_off": ErrorKind(
            "Programs that agents write are switched off.",
            'a person writes code: "ask" into config/rye.yaml of the user space',
        ),
        "malformed_handle": ErrorKind(
            "This is not the handle of a result.", "pass a handle on exactly as it was given to you"
        ),
        "answer_too_long": ErrorKind(
            "The answer is longer than a client can read at once.", "ask for less at once"
        ),
        "remote_changed": ErrorKind(
            "The other server offers something other than what was approved.", "rye mcp update {server}"
        ),
        "variable_not_set": ErrorKind(
            "A variable that another server needs is not set where rye-mcp runs.",
            "set it there, or bring the server in without it: rye mcp add",
        ),
        "secret_missing": ErrorKind("Your store lacks a secret that the tool names.", "rye secret set NAME"),
        "internal": ErrorKind("Something went wrong inside rye-mcp.", "report it, with what you did"),
    }
)
"""Code → what it means."""

_BRACES = re.compile(r"\{(\w+)\}")
_TAKEN = frozenset({"status", "code", "error", "hint", "where"})


class RyeError(Exception):
    """A refusal or a failure, by a stable code; see the table `ERRORS`."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        where: str | Path | None = None,
        hint: str | None = None,
        **details: Any,
    ) -> None:
        if code not in ERRORS:
            raise ValueError(f"expected a code of the table ERRORS, found {code!r}")
        if taken := _TAKEN & details.keys():
            raise ValueError(f"expected details by other names, found {sorted(taken)}")
        super().__init__(message)
        self.code = code
        self.message = message
        self.where = None if where is None else str(where)
        self.details = details
        self.receipt: str | None = None
        """The digest of the receipt of the run that was refused, if it has one."""
        self.hint = hint if hint is not None else self._usual_hint()

    def as_dict(self) -> dict[str, Any]:
        """Return the error as data, for a result over MCP or for `--json`."""
        answer: dict[str, Any] = {
            "status": "error",
            "code": self.code,
            "error": printable(self.message),
            "hint": printable(self.hint),
        }
        if self.where is not None:
            answer["where"] = printable(self.where)
        return answer | {name: _plain(value) for name, value in self.details.items()}

    def _usual_hint(self) -> str:
        known = {**self.details}
        if self.where is not None:
            known.setdefault("path", self.where)
        return _BRACES.sub(
            lambda found: shlex.quote(str(known[found[1]])) if found[1] in known else found[1].upper(),
            ERRORS[self.code].hint,
        )


_FOR_A_PERSON = frozenset(
    {
        "bad_signature",
        "content_changed",
        "malformed_signature",
        "out_of_scope",
        "permissions_widened",
        "revoked_key",
        "signer_changed",
        "untrusted_key",
    }
)
"""Codes that an agent must not answer by signing: the hint is for the person."""

_KNOWN_AS_A_PERSONS = "signed_before_by"
"""The detail of a refusal that names the person who is known to have signed the item before."""

_COMMAND_OF_A_PERSON = re.compile(r"\brye (?:trust|keys|secret|mcp|lock|init)\b|\b(?:npm|pip) install\b")
"""Commands for a person only, because an agent is refused or has no terminal for it."""

_OR = ". Or "
"""The words between two remedies: each is addressed by itself."""

_IS_ADDRESSED = re.compile(r"(?:^|, or |\. Or )ask (?:a|the) person\b")


def addressed_to_a_person(facts: Mapping[str, Any]) -> dict[str, Any]:
    """An answer for an agent, in which each hint that only a person can follow says so.

    No hint tells an agent to sign what somebody else may have signed. That goes for everything inside of the
    answer, by its `code` or, where something is only looked at, its `state`.
    """
    told = {name: _addressed(value) for name, value in facts.items()}
    hint = facts.get("hint")
    codes = ERRORS.keys() & {str(facts.get("code")), str(facts.get("state"))}
    if codes and isinstance(hint, str) and not _IS_ADDRESSED.search(hint):
        is_anothers = bool(_FOR_A_PERSON & codes) or bool(facts.get(_KNOWN_AS_A_PERSONS))
        ways = hint.split(_OR)
        told["hint"] = _OR.join(
            f"ask a person: {way}" if _is_for_a_person(way, is_anothers) else way for way in ways
        )
    return told


def _is_for_a_person(way: str, is_anothers: bool) -> bool:
    return (is_anothers and "rye sign" in way) or _COMMAND_OF_A_PERSON.search(way) is not None


def _addressed(value: Any) -> Any:
    if isinstance(value, Mapping):
        return addressed_to_a_person(value)
    return [_addressed(each) for each in value] if isinstance(value, list) else value


def kind(value: object) -> str:
    """Name the kind of a value for messages."""
    if value is None:
        return "nothing (null)"
    if isinstance(value, bool):
        return str(value).lower()
    for types, name in _KINDS:
        if isinstance(value, types):
            return name
    return type(value).__name__


_KINDS: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (str, "text"),
    ((int, float), "a number"),
    (list, "a list"),
    (dict, "a mapping"),
)


def printable(path: Path | str) -> str:
    """A path, or a text with paths in it, as text that every terminal and encoder takes.

    The bytes of a path may be no UTF-8.
    """
    text = str(path)
    try:
        return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    except UnicodeEncodeError:  # half a character, which stands for no byte
        return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _plain(value: Any) -> Any:
    if isinstance(value, Path | str):
        return printable(value)
    if isinstance(value, Mapping):
        return {printable(str(name)): _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(each) for each in value]
    return value
