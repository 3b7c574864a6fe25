"""What a lockfile pins, and what a person agreed to."""
