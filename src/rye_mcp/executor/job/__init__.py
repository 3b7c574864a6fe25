"""A prepared call: its private copy, its primitive, and how its run ended."""
