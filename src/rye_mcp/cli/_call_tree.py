"""Draws a tree of calls with lines, for a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

__all__ = ["drawn"]

Node = TypeVar("Node")


def drawn(
    nodes: Sequence[Node], below: Callable[[Node], Sequence[Node]], words: Callable[[Node], str]
) -> Iterator[str]:
    """The lines of some trees beside each other.

    >>> list(drawn(["a", "b"], lambda node: ["c"] if node == "a" else [], str))
    ['├─ a', '│  └─ c', '└─ b']
    """
    for node in nodes:
        is_last = node is nodes[-1]
        yield f"{'└─' if is_last else '├─'} {words(node)}"
        for line in drawn(below(node), below, words):
            yield f"{'   ' if is_last else '│  '}{line}"
