"""Signs an item: bytes in, signed bytes out, and the file replaced whole or not at all.

Nothing is written that the gate would refuse, or that looks other than it is. A file that changed since it
was read is not signed, because nobody looked at what would be signed.
"""

from __future__ import annotations

import os
import stat
from dataclasses import replace
from datetime import UTC, datetime

from lilux import _files as whole_files
from lilux.primitives.signing import sign_hash
from rye_mcp.errors import RyeError
from rye_mcp.files import Tree, translated
from rye_mcp.items import MAX_ITEM_BYTES, ItemFile, SpaceName, relative_path, signed_path
from rye_mcp.trust import signature
from rye_mcp.trust.keys import SigningKey
from rye_mcp.trust.listing import unsigned_content
from rye_mcp.trust.scope import Role
from rye_mcp.trust.signature import SignatureLine, require_honest_text
from rye_mcp.trust.verify import RoleOf, Trust, VerifiedItem, verify_item, verify_listing

__all__ = ["require_unchanged", "sign_content", "sign_item", "sign_listing", "write_item"]

_NEW_FILE_MODE = 0o644


def sign_item(
    file: ItemFile, key: SigningKey, trust: Trust, *, role: RoleOf, now: datetime | None = None
) -> VerifiedItem:
    """Sign an item and write it in its place; what is returned has passed the gate."""
    signed = replace(file, content=sign_content(file, key, now=now))
    try:
        verified = verify_item(signed, trust, role=role)
    except RyeError as exc:
        raise _with_remedy(exc, key) from exc
    if file.content or file.skill is None:
        write_item(file, signed.content)
    else:
        _write_new(signed)
    return verified


def sign_listing(
    file: ItemFile,
    key: SigningKey,
    trust: Trust,
    *,
    role: Role,
    before: bytes | None,
    now: datetime | None = None,
) -> VerifiedItem:
    """Sign what lists the files of a directory, and write it; what is returned has passed the gate.

    `file` has the new listing, `before` is all of what was there when somebody looked; None for nothing.
    """
    signed = replace(file, content=sign_content(file, key, now=now))
    try:
        verified = verify_listing(signed, trust, role=role)
    except RyeError as exc:
        raise _with_remedy(exc, key) from exc
    if before is not None:
        _write(replace(file, content=before), signed.content)
    else:
        _write_new(signed)
    return verified


def sign_content(file: ItemFile, key: SigningKey, *, now: datetime | None = None) -> bytes:
    """The content of an item with a signature of this key, in place of any earlier one."""
    if file.space.name is SpaceName.SYSTEM:
        raise RyeError(
            "out_of_scope",
            f"expected an item of the project or the user, found {file.path} of the system space",
            where=file.path,
            item_id=file.item_id,
            hint=f"rye copy {file.item_id} --to project",
        )
    require_honest_text(file)
    content = unsigned_content(file)
    timestamp = signature.format_timestamp(now or datetime.now(UTC))
    digest = signature.content_digest(content)
    statement = signature.statement_digest(
        file, timestamp=timestamp, key_id=key.public.key_id, digest=digest, length=len(content)
    )
    value = sign_hash(statement, key.private_pem)
    line = SignatureLine(timestamp, digest, value, key.public.fingerprint)
    return signature.attach(file, content, line)


def write_item(file: ItemFile, content: bytes) -> None:
    """Put signed content in the place of an item, when that still says what was read."""
    relative_path(file.item_type, file.item_id, file.extension)
    _write(file, content)


def _write(file: ItemFile, content: bytes) -> None:
    relative = signed_path(file.item_type, file.item_id, file.extension)
    directory_name, _, name = relative.rpartition("/")
    with (
        translated("write_failed", file.path),
        Tree(file.space.root).opened(directory_name) as directory,
        whole_files.lock(directory),
    ):
        _require_unchanged(file, relative)
        mode = stat.S_IMODE(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode) & 0o777
        with whole_files.staged(file.path, content, mode=mode, directory=directory) as temporary:
            # An editor that saves the file does not take the lock, and the disk may have been slow.
            _require_unchanged(file, relative)
            whole_files.publish(temporary, file.path, directory=directory)
        whole_files.sync_directory(directory)


def _write_new(file: ItemFile) -> None:
    """Write a file that was not there; RyeError `content_changed` when one is by now."""
    relative = signed_path(file.item_type, file.item_id, file.extension)
    try:
        Tree(file.space.root).write(relative, file.content, mode=_NEW_FILE_MODE, replace=False)
    except FileExistsError as exc:
        raise _changed(file) from exc


def require_unchanged(file: ItemFile) -> None:
    """RyeError `content_changed` when something else stands in the place of a file by now."""
    _require_unchanged(file, signed_path(file.item_type, file.item_id, file.extension))


def _require_unchanged(file: ItemFile, relative: str) -> None:
    current = Tree(file.space.root).read(relative, limit=MAX_ITEM_BYTES)
    if current is None or not _says_the_same(file, current):
        raise _changed(file)


def _changed(file: ItemFile) -> RyeError:
    return RyeError(
        "content_changed",
        f"expected {file.path} as it was read, found that it has changed since then",
        where=file.path,
        item_id=file.item_id,
    )


def _with_remedy(error: RyeError, key: SigningKey) -> RyeError:
    """The same refusal while an item is being signed, where the hint to sign it would not help."""
    remedies = {
        "untrusted_key": f"nothing says that your own key ({key.public.fingerprint}) is trusted: rye init",
        "revoked_key": "make a new key: rye keys rotate",
    }
    hint = remedies.get(error.code, error.hint)
    return RyeError(error.code, error.message, where=error.where, hint=hint, **error.details)


def _says_the_same(file: ItemFile, current: bytes) -> bool:
    """Whether nothing but a signature has changed."""
    if current == file.content:
        return True
    try:
        return signature.detach(replace(file, content=current)) == signature.detach(file)
    except RyeError:
        return False
