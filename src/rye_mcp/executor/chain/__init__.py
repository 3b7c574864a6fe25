"""From an id to a verified, valid chain with all files that it brings along."""
