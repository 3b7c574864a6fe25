"""The pins of a lockfile, and the agreement of a person."""
