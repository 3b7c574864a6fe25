"""From a tool's id to a finished run: every stage takes what the one before it made, and nothing else.

`Chain` → `VerifiedChain` → `ValidChain` → `PinnedChain` → `PreparedCall`: each is a frozen value that only
its own module makes, so no stage can be left out.
"""
