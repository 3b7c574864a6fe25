"""YAML inside of something else: a block of comments, or what stands before the text of a Markdown file.

A comment block is written in the manner of PEP 723, with the comments of its language:

    // /// rye
    // version: 1.2.0
    // executor_id: rye/core/runtimes/node_runtime
    // ///

It begins at the start of a line, anywhere in the file, and there is one of them. Front matter stands between
two lines `---` at the very top, the line of a signature aside. What has neither says nothing about itself.
"""

from __future__ import annotations

from rye_mcp.items import CommentStyle
from rye_mcp.metadata._issues import Issues
from rye_mcp.metadata._values import Raw
from rye_mcp.metadata._yaml import read_yaml

__all__ = ["markdown_body", "read_comment_block", "read_front_matter"]

_FENCE = "---"
_SIGNATURE_BEGINS = "<!-- rye:signed:"


def read_comment_block(text: str, style: CommentStyle, issues: Issues, *, places: bool = False) -> Raw:
    """What the block of comments says, in a language with these comments."""
    comment = style.opening.decode("ascii")
    opening, closing = f"{comment}/// rye", f"{comment}///"
    if opening not in text:
        return Raw()
    lines = text.split("\n")
    begins = [number for number, line in enumerate(lines) if line.rstrip() == opening]
    if not begins:
        return Raw()
    if len(begins) > 1:
        issues.add(f"expected one block {opening!r}, found another one", begins[1] + 1)
    first = begins[0] + 1
    content: list[str] = []
    for number, line in enumerate(lines[first:], start=first + 1):
        if line.rstrip() == closing:
            return read_yaml(
                "\n".join(content),
                issues,
                first_line=first + 1,
                first_column=len(comment) + 1,
                places=places,
            )
        if not line.startswith(comment) and line.rstrip() != comment.rstrip():
            issues.add(f"expected a line with {closing!r} at the end of the block, found none", number)
            return Raw()
        content.append(line[len(comment) :])
    issues.add(f"expected a line with {closing!r} at the end of the block, found none", len(lines))
    return Raw()


def read_front_matter(text: str, issues: Issues, *, places: bool = False) -> Raw:
    """What stands before the text of a Markdown file."""
    lines = text.split("\n")
    first, last = _fences(lines)
    if first is None:
        return Raw()
    if last is None:
        issues.add(f"expected a line with {_FENCE} at the end of the front matter, found none", first + 1)
        return Raw()
    return read_yaml("\n".join(lines[first + 1 : last]), issues, first_line=first + 2, places=places)


def markdown_body(text: str) -> str:
    """The text of a Markdown file, without its signature and its front matter."""
    lines = text.split("\n")
    first, last = _fences(lines)
    if first is not None and last is not None:
        return "\n".join(lines[last + 1 :])
    return "\n".join(lines[_signature_lines(lines) :])


def _fences(lines: list[str]) -> tuple[int | None, int | None]:
    """Which lines begin and end the front matter."""
    first = _signature_lines(lines)
    if first >= len(lines) or lines[first].rstrip() != _FENCE:
        return None, None
    ends = (number for number in range(first + 1, len(lines)) if lines[number].rstrip() == _FENCE)
    return first, next(ends, None)


def _signature_lines(lines: list[str]) -> int:
    return 1 if lines[0].startswith(_SIGNATURE_BEGINS) else 0
