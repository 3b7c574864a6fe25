"""The query language, for people and for models: the text that somebody searches for becomes a tree.

It knows nothing of items or indexes. Its rules are in `docs/architecture/search.md`.

    query = read_query("turn this video into an mp3 file")
    query.tree, query.wish, query.notice
"""

from rye_mcp.queries.parser import (
    MAX_CHARACTERS,
    MAX_DEPTH,
    MAX_PREFIXES,
    MAX_WORDS,
    parse,
    read_query,
)
from rye_mcp.queries.tokens import MAX_NEAR_DISTANCE, MAX_NEAR_WORDS, OPERATORS
from rye_mcp.queries.tree import (
    FIELDS,
    And,
    Asked,
    Everything,
    Leaf,
    Near,
    Node,
    Not,
    Or,
    Phrase,
    Prefix,
    Query,
    Term,
    leaves_of,
)
from rye_mcp.queries.wishes import QUESTION_WORDS, as_sentence, asks_to_look, sentences_of

__all__ = [
    "FIELDS",
    "MAX_CHARACTERS",
    "MAX_DEPTH",
    "MAX_NEAR_DISTANCE",
    "MAX_NEAR_WORDS",
    "MAX_PREFIXES",
    "MAX_WORDS",
    "OPERATORS",
    "QUESTION_WORDS",
    "And",
    "Asked",
    "Everything",
    "Leaf",
    "Near",
    "Node",
    "Not",
    "Or",
    "Phrase",
    "Prefix",
    "Query",
    "Term",
    "as_sentence",
    "asks_to_look",
    "leaves_of",
    "parse",
    "read_query",
    "sentences_of",
]
