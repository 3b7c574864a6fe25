"""The surroundings of primitives: the environment of a tool, its interpreter, credentials of services."""
