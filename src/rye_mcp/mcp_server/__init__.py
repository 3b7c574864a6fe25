"""The MCP side of rye-mcp for agents: its tools as MCP describes them, arguments checked, answers short.

The verbs know nothing of MCP, and this package decides nothing: it turns arguments into requests, and results
into structured content with a short text. `rye_mcp.server` starts it.
"""
