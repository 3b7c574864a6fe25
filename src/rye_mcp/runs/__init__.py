"""The records of runs: a row of the log for each, and the output that was too long for one answer.

Both are in the state directory of the user, which this package is given as a path. It knows nothing of chains
and of trust; parameter values, environments and output never get into the log.
"""
