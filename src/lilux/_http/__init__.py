"""The parts of `lilux.primitives.http_client`; nothing here is for other callers.

`docs/architecture/lilux.md` says what each module does, and `.importlinter` has their layers.
"""
