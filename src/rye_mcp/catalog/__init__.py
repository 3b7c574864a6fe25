"""The search index: finds the right items among many. Its rules are in `docs/architecture/search.md`.

with Catalog.open(spaces, directory) as catalog:
    catalog.refresh()
    page = catalog.search(SearchQuery(parse("convert a video")))
"""

from rye_mcp.catalog._catalog import Catalog, Hit, Page
from rye_mcp.catalog._document import words_of_fields
from rye_mcp.catalog._matching import SearchQuery

__all__ = ["Catalog", "Hit", "Page", "SearchQuery", "words_of_fields"]
