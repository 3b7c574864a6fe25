"""The parts of the documents that the code knows: tables made of its own tables.

Rules:

- A page has places for them, `<!-- generated: NAME -->` and `<!-- /generated -->`; what stands between is
  written by `make docs`, and everything else by people. A test fails while a place is not what it would be.
- What is made here comes from the tables that the program itself uses. Where a person has to say what
  something means, a missing or a superfluous entry is an error, so that no new field goes without its words.
- Pages for people are in `docs/`, those for models in the system space, which is sealed after a change.
"""

__all__: list[str] = []
