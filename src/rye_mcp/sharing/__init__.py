"""Sharing signed items: artifacts in registries and commits of repositories, and the pins of what was pulled.

This package moves bytes and compares digests. It trusts nobody: whoever calls it verifies what arrived at the
gate before anything is written. The rules are in `docs/architecture/sharing.md`.
"""
