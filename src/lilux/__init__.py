"""Lilux, the microkernel: it runs fully resolved configurations and knows nothing of their origin.

Each primitive is a module of its own under `lilux.primitives` and is imported by its full name, so that
running a process never loads an HTTP client.
"""
