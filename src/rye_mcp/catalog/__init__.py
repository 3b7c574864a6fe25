"""The search index: finds the right item among many, and decides nothing but what is found.

See `_catalog` for how a search goes, `_ranking` for what comes first, `_space_index` for how an index is kept
fresh, `query` for the language that people and models write.
"""

from rye_mcp.catalog._catalog import Catalog, Hit, Page, Ranker, SearchQuery

__all__ = ["Catalog", "Hit", "Page", "Ranker", "SearchQuery"]
