"""Decides who may run what: signatures, keys, whom this user trusts, and the one gate.

Nothing here prints, asks, or imports the code of a project, and nothing in a project decides who is trusted.
The rules of each module are in `docs/architecture/trust.md`.
"""
