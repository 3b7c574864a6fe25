"""Receipts: what is on record of each run, signed on this machine, in a chain that shows what is missing.

A receipt is an in-toto statement in a DSSE envelope. `rye_mcp.runs` keeps the chain, this package says what a
receipt holds, signs it and verifies it. What a receipt proves, and what not, is in `docs/receipts.md`.
"""
