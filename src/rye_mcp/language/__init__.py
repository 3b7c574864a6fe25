"""What words are and what they mean: text is split, stemmed and compared.

It knows nothing of items or queries. The rules are in `docs/architecture/search.md`. Whole numbers and the
standard library do all of it; only a sentence model needs more.
"""
