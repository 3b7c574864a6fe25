"""The environment of a tool, and what of a project may be in it."""
