"""`python -m rye_mcp` is `rye-mcp`, for whoever knows an interpreter and not where its programs are."""

from rye_mcp.start import main

if __name__ == "__main__":
    raise SystemExit(main())
