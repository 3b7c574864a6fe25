"""The operations on items: one module and one function for each verb, for agents and people alike.

A verb takes a frozen request and a `Context`, and returns a frozen result, whose `as_dict` programs get. What
goes wrong is a RyeError. Verbs print nothing, ask nothing and know no MCP; the rules of each are in
docs/architecture/command-line.md.
"""
