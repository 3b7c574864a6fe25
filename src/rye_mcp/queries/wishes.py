"""Tells what a wish says: its sentences, the words that say what it is about, and whether it only looks."""

from __future__ import annotations

import re
from typing import Final

from rye_mcp.language.words import Stemmer, words_of
from rye_mcp.queries.tree import Node, Or, Term

__all__ = ["IMPLIED", "LEAST_WORDS", "QUESTION_WORDS", "as_sentence", "asks_to_look", "sentences_of"]

_QUESTION_WORDS: Final = """
a about all also am an and any anybody anyone anything are as at be been being but by can could did
do does doing each either else every everything for from get getting give gives had has have having
he help her here hers him his how i if in into is it its just kindly know let like
looking many may maybe me might more most much must my myself need needed needs no not of off on one
onto or other our ours out over perhaps please provide really shall she should show so some somebody
someone something still such suggest tell than thank thanks that the their theirs them then there
these they thing things this those through to too try trying under until up upon us use used using
very via want wants was way we were what whats when where whether which while who whom whose why
will with within without wonder would yes yet you your yours d ll m re s t ve aren couldn didn doesn
don hadn hasn haven isn shouldn wasn weren won wouldn
"""

QUESTION_WORDS: Final = frozenset(_QUESTION_WORDS.split())
"""What a sentence is made of, and not what it is about."""


GREETINGS: Final = frozenset({"hello", "hey", "hi"})
"""What a sentence may begin with; a tool may be called so."""

MAX_SENTENCES: Final = 8
"""How many sentences of a wish are looked at one by one."""

_LOOKING: Final = """
check compare count display examine explain explore find get inspect list look open print read search
see show tell view watch what when where which who why
"""
_CHANGING: Final = """
add append apply archive change clean clear close commit convert copy create cut delete destroy
disable discard drop edit empty end erase execute fix forget free insert install kill launch make
merge modify move overwrite patch purge push put remove rename replace reset restart restore revert
rid run save send set shorten start stop store swap terminate throw trash truncate undo uninstall
update upload wipe write
"""

LOOKING: Final = frozenset(_LOOKING.split())
"""With these words, somebody asks to find or to read something …"""

CHANGING: Final = frozenset(_CHANGING.split())
"""… unless there is one of these, too."""

LEAST_WORDS: Final = 2
"""How many words a sentence has that says something of its own."""

_NO_ENDING: Final = "(?!(?:ai|app|co|com|dev|edu|gov|info|io|net|org)$)"
_FILE_NAME: Final = re.compile(
    rf"(?!\w+://|www\.)[^\s@]*(?:\w\w\.{_NO_ENDING}[a-z][a-z0-9]{{0,4}}|\w\.{_NO_ENDING}[a-z][a-z0-9]{{1,4}})",
    re.IGNORECASE,
)
"""`notes.md` or `src/main.c`; no address, and no abbreviation such as `e.g.`"""

_FILE: Final = "file"
IMPLIED: Final = frozenset({_FILE})
"""The words that `as_sentence` adds to what somebody has written."""

_SENTENCE_END: Final = re.compile(r"[.!?;:](?:\s+|$)|\n")
_WORDS_WITH_GREETING: Final = 3
"""In a wish of more words than these, a greeting in front is not searched for."""


def as_sentence(tree: Node) -> Node:
    """What a sentence is about: without the words that only make it one, and with the parts of those that are
    put together (`real-time`) beside the whole. Every other tree stays as it is.

    A greeting in front of a whole wish is left out; in `hello world`, it is searched for. A wish that names a
    file, and says more than its name, is about a file.
    """
    terms = _bare_terms(tree)
    if terms is None:
        return tree
    texts = dict.fromkeys(text for term in terms for text in _with_parts(term.text))
    kept = [text for text in texts if not QUESTION_WORDS.issuperset(words_of(text))] or list(texts)
    if len(kept) > _WORDS_WITH_GREETING and kept[0].lower() in GREETINGS:
        del kept[0]
    if len(terms) > 1 and any(_FILE_NAME.fullmatch(term.text) for term in terms):
        kept = [*dict.fromkeys([*kept, _FILE])]
    parts = tuple(Term(text) for text in kept)
    return parts[0] if len(parts) == 1 else Or(parts)


def _bare_terms(tree: Node) -> list[Term] | None:
    """The words of a tree that is nothing but words, in any field; None for every other one."""
    parts = tree.parts if isinstance(tree, Or) else (tree,)
    terms = [part for part in parts if isinstance(part, Term) and part.field is None]
    return terms if len(terms) == len(parts) else None


def sentences_of(wish: str) -> list[str]:
    """The sentences of a wish that say something of their own; none when there is only one."""
    parts = [part for part in _SENTENCE_END.split(wish) if len(_content(part)) >= LEAST_WORDS]
    return parts[:MAX_SENTENCES] if len(parts) > 1 else []


def asks_to_look(wish: str, stemmer: Stemmer) -> bool:
    """Whether a query only asks to find or read something."""
    words = set(words_of(wish))
    if words.isdisjoint(LOOKING):
        return False
    changing = set(stemmer.stems(CHANGING).values())
    return changing.isdisjoint(stemmer.stems(words).values())


def _content(text: str) -> set[str]:
    return set(words_of(text)) - QUESTION_WORDS


def _with_parts(text: str) -> list[str]:
    parts = words_of(text)
    return [text, *parts] if len(parts) > 1 else [text]
