"""Calls that a running tool makes: see `docs/architecture/inside.md`."""
