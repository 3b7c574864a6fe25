"""The local page of `rye ui`: what has run and is running, items, keys, questions, health.

It is reached from this machine by this user alone. The rules are in `docs/architecture/ui.md`.
"""
