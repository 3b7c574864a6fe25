"""`rye keys`: the key pairs that this user signs with, and their agents.

Exit codes: 0 done, 1 refused, 2 wrong use. Nothing here prints a private key. A passphrase comes from
`RYE_KEY_PASSPHRASE`, or is asked for in a terminal; the one to change to may come from
`RYE_NEW_KEY_PASSPHRASE`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rye_mcp.cli._command_groups import command_group
from rye_mcp.cli._options import JsonOption, open_app
from rye_mcp.cli._printing import print_json
from rye_mcp.cli._terminal import NEW_PASSPHRASE_VARIABLE, given_passphrase, new_passphrase, old_passphrase
from rye_mcp.errors import RyeError
from rye_mcp.items import printable
from rye_mcp.trust.decisions import owner_of
from rye_mcp.trust.keys import PASSPHRASE_VARIABLE, KeyRing, Rotation
from rye_mcp.trust.scope import SignerKind
from rye_mcp.trust.trust_document import PublicKey
from rye_mcp.visible import visible

if TYPE_CHECKING:
    from rye_mcp.app import App

__all__ = ["keys"]

keys = command_group("The key pairs that you, and your agents, sign with.")


class Kind(StrEnum):
    """The kinds of key pairs."""

    PERSON = "person"
    AGENT = "agent"


KindOption = Annotated[Kind, typer.Option("--kind", help="Whose key pair: yours, or that of your agents.")]
OwnerOption = Annotated[
    str | None, typer.Option("--owner", metavar="NAME", help="The owner's name that others see.")
]


@keys.command()
def generate(
    kind: KindOption = Kind.PERSON,
    owner: OwnerOption = None,
    passphrase: Annotated[
        bool,
        typer.Option("--passphrase", help=f"Encrypt it; asked for, unless {PASSPHRASE_VARIABLE} is set."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Make a key pair, if you have none."""
    app = open_app(None)
    secret = new_passphrase(PASSPHRASE_VARIABLE, as_json=as_json) if passphrase else None
    app.keys.generate(SignerKind(kind), owner=owner, passphrase=secret)
    facts = _facts(app, SignerKind(kind))
    if as_json:
        print_json({"status": "generated", **facts})
        return
    typer.echo(f"Made {_pair(kind)}.")
    _print_facts(facts)
    if not facts["encrypted"]:
        typer.echo("It is not encrypted: rye keys passphrase")


@keys.command()
def show(as_json: JsonOption = False) -> None:
    """Show the key pairs: where they are, their ids, whether they are encrypted."""
    app = open_app(None)
    found = {kind: _facts_or_none(app, kind) for kind in (SignerKind.PERSON, SignerKind.AGENT)}
    if not any(found.values()):
        app.keys.show(SignerKind.PERSON)
    if as_json:
        print_json({"status": "success"} | {kind.value: facts for kind, facts in found.items()})
        return
    for kind, facts in found.items():
        typer.echo(f"{_pair(kind).capitalize()}:" if facts else f"There is no key pair of {_whose(kind)}.")
        if facts:
            _print_facts(facts)


@keys.command()
def rotate(
    kind: KindOption = Kind.PERSON,
    owner: OwnerOption = None,
    unlinked: Annotated[
        bool,
        typer.Option(
            "--unlinked", help="Do not sign the new key with the old one, for example because that is lost."
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Replace a key pair by a new one, which the old one signs; what the old one signed stays valid."""
    app = open_app(None)
    signer = SignerKind(kind)
    old = app.keys.show(signer)
    linked = kind is Kind.PERSON and not unlinked and old.key_id not in app.trust.store.revocations()
    before = _passphrase_to_link(app, as_json=as_json) if linked else None
    secret = given_passphrase(NEW_PASSPHRASE_VARIABLE)
    if secret is None and app.keys.is_encrypted(signer):
        secret = new_passphrase(NEW_PASSPHRASE_VARIABLE, PASSPHRASE_VARIABLE, as_json=as_json)
    rotation = app.keys.rotate(
        signer,
        owner=owner or owner_of(app.trust, old),
        passphrase=secret,
        old_passphrase=before,
        linked=linked,
    )
    facts = _facts(app, signer)
    if as_json:
        linked = rotation.statement is not None
        print_json({"status": "rotated", **facts, "old": _names(rotation.old), "linked": linked})
        return
    typer.echo(f"Replaced {_pair(kind)}.")
    _print_facts(facts)
    _print_what_follows(rotation, kind)


def _passphrase_to_link(app: App, *, as_json: bool) -> bytes | None:
    """The passphrase with which the old key signs the new one; None where it has none."""
    if not app.keys.is_encrypted(SignerKind.PERSON):
        return None
    given = old_passphrase(as_json=as_json)
    if given is None:
        what = "expected the passphrase of the old key, which signs the new one, found none"
        hint = f"set {PASSPHRASE_VARIABLE}; if nobody knows it any more: rye keys rotate --unlinked"
        raise RyeError("passphrase_required", what, hint=hint)
    return given


def _print_what_follows(rotation: Rotation, kind: Kind) -> None:
    typer.echo("What the old one signed stays valid. If it was stolen:")
    typer.echo(f"  rye trust revoke {rotation.old.key_id}")
    if kind is not Kind.PERSON:
        return
    if rotation.statement is not None:
        typer.echo(
            "The old key signed the new one, so everyone who trusts the old one trusts the new one too."
        )
    typer.echo("In a project that others clone, propose the new one: rye trust propose")


@keys.command()
def export(kind: KindOption = Kind.PERSON, owner: OwnerOption = None, as_json: JsonOption = False) -> None:
    """Print the document of the public key, for others: rye trust add FILE."""
    app = open_app(None)
    signer = SignerKind(kind)
    key = app.keys.show(signer)
    document = app.keys.export(signer, owner=owner or owner_of(app.trust, key)).decode("utf-8")
    if as_json:
        print_json({"status": "success", **_names(key), "document": document})
        return
    typer.echo(document, nl=False)


@keys.command()
def passphrase(
    kind: KindOption = Kind.PERSON,
    remove: Annotated[
        bool, typer.Option("--remove", help="Remove the passphrase: the key is no longer encrypted.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Encrypt the private key with another passphrase, or none."""
    app = open_app(None)
    signer = SignerKind(kind)
    app.keys.show(signer)
    old = old_passphrase(as_json=as_json) if app.keys.is_encrypted(signer) else None
    new = None if remove else new_passphrase(NEW_PASSPHRASE_VARIABLE, as_json=as_json)
    app.keys.change_passphrase(signer, old=old, new=new)
    facts = _facts(app, signer)
    if as_json:
        print_json({"status": "changed", **facts})
        return
    how = "is in the clear now" if remove else "has its new passphrase"
    typer.echo(f"{_pair(kind).capitalize()} {how}.")


def _facts(app: App, kind: SignerKind) -> dict[str, Any]:
    """Return the facts about a pair, without anything secret."""
    key = app.keys.show(kind)
    revoked = app.trust.store.revocations().get(key.key_id)
    return {
        "kind": kind.value,
        **_names(key),
        "owner": owner_of(app.trust, key),
        "path": printable(app.keys.directory(kind)),
        "encrypted": app.keys.is_encrypted(kind),
        "revoked": revoked,
    }


def _facts_or_none(app: App, kind: SignerKind) -> dict[str, Any] | None:
    if not _exists(app.keys, kind):
        return None
    return _facts(app, kind)


def _exists(ring: KeyRing, kind: SignerKind) -> bool:
    try:
        ring.show(kind)
    except RyeError as exc:
        if exc.code != "no_key":
            raise
        return False
    return True


def _names(key: PublicKey) -> dict[str, str]:
    return {"key_id": key.key_id, "fingerprint": key.fingerprint}


def _print_facts(facts: dict[str, Any]) -> None:
    lines = {
        "owner": facts["owner"],
        "key id": facts["key_id"],
        "fingerprint": facts["fingerprint"],
        "encrypted": "yes" if facts["encrypted"] else "no",
        "in": facts["path"],
        "revoked": facts["revoked"],
    }
    for label, text in lines.items():
        if text is not None:
            typer.echo(f"  {label:<12} {visible(text)}")


def _pair(kind: SignerKind | Kind) -> str:
    return "the key pair of your agents" if kind.value == Kind.AGENT.value else "your key pair"


def _whose(kind: SignerKind) -> str:
    return "your agents" if kind is SignerKind.AGENT else "yours"
