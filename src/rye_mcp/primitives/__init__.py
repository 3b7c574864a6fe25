"""Primitives that live in this process: pages of the web, processes of a project, and verbs for agents.

A tool reaches them as it reaches every primitive, through a chain that was verified. What they do is code of
this package alone; what they are asked is the configuration of a signed tool, and the arguments of a call.
"""

__all__: list[str] = []
