"""What can be done with items: one module a verb, one function each, for agents and for people alike.

Rules:

- A verb takes a request and a `Context`, and returns a result. Both are frozen dataclasses; `as_dict` of a
  result is what a program gets, over MCP and with `--json`.
- What goes wrong is a RyeError. Nothing here prints, asks, or knows MCP.
- Verbs do not know each other. What they share is in `context` and in modules that begin with `_`.
"""
