"""Warm calls: interpreters that are started, and confined, before there is a call for them.

The rules are in `docs/architecture/execution.md`.
"""
