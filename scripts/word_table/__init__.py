"""Makes the word table of the search: `make word-table`. docs/architecture/search.md has its rules.

The table is committed. This package is needed to make another one, and never to install or to run rye-mcp.
"""
