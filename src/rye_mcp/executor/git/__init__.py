"""What git tracks and has committed, read without running git."""
