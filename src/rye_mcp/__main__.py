"""`python -m rye_mcp` is `rye-mcp`, for callers who know an interpreter but not where its programs are."""

from rye_mcp.start import main

if __name__ == "__main__":
    raise SystemExit(main())
