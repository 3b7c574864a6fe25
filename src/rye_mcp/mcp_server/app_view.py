"""The view of a run for hosts that show MCP Apps (SEP-1865): a document at `ui://rye-mcp/run`.

It has the style sheet of the page, and one script, which asks nothing but its host. The tool `execute` names
it to clients that say that they show such documents.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from mcp.server.apps import Apps, client_supports_apps

import rye_mcp

__all__ = ["RUN_VIEW", "run_view", "view_of"]

RUN_VIEW: Final = "ui://rye-mcp/run"

_SHOWN_BY: Final = frozenset({"execute"})
_STATIC: Final = Path(rye_mcp.__file__).parent / "ui/static"
_DOCUMENT: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="color-scheme" content="light dark"><title>Run</title>
<style>{style}</style></head>
<body class="app"><main id="view"></main><p class="told" id="told" role="status"></p>
<script>{script}</script></body></html>
"""


def run_view() -> Apps:
    """Return the extension with the one document."""
    apps = Apps()
    style, script = ((_STATIC / name).read_text("utf-8") for name in ("style.css", "app.js"))
    document = _DOCUMENT.format(style=style, script=script)
    about = "What came of a call of execute, and what waits for a yes."
    apps.add_html_resource(RUN_VIEW, document, title="Run", description=about, prefers_border=True)
    return apps


def view_of(tool: str, context: Any) -> dict[str, Any] | None:
    """The `_meta` of a tool that names its view; None if it has none, or the client does not show it."""
    if tool not in _SHOWN_BY or not client_supports_apps(context):
        return None
    return {"ui": {"resourceUri": RUN_VIEW}}
