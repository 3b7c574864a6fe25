"""Calls that run on another machine: the envelope, the messages in it, the worker, and whoever sends to it.

A node verifies again what it runs, by what its own user trusts. The rules are in docs/architecture/nodes.md.
"""
