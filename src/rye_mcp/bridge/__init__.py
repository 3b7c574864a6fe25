"""Other MCP servers, whose tools are signed items here: connections to them, and the calls."""

__all__: list[str] = []
