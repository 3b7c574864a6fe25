"""What primitives run in: the environment of a tool, its interpreter, and the credentials of services."""
