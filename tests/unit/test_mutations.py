"""The table of mutations still names texts and tests that are there; `scripts/mutate.py` tries them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache

import pytest

from scripts.mutate import ROOT, Edit, Mutation, MutationError, load

MUTATIONS = load()


@cache
def text_of(file: str) -> str:
    return (ROOT / file).read_text(encoding="utf-8")


@cache
def names_in(file: str) -> frozenset[str]:
    nodes = ast.parse(text_of(file)).body
    return frozenset(node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def test_what_is_replaced_occurs_once_and_every_red_test_exists() -> None:
    assert len(MUTATIONS) > 900
    assert [problem for mutation in MUTATIONS for problem in wrong_with(mutation)] == []


def wrong_with(mutation: Mutation) -> Iterator[str]:
    """What has become of the texts and the tests that a mutation names."""
    try:
        unchanged = [e.file for e in mutation.edits if e.applied_to(text_of(e.file)) == text_of(e.file)]
    except MutationError as exc:
        yield f"{mutation.title}: {exc}"
    else:
        yield from (f"{mutation.title}: expected a change of {file}, found none" for file in unchanged)
    if not mutation.red:
        yield f"{mutation.title}: expected tests that turn red, found none"
    for test in mutation.red:
        file, _, name = test.partition("::")
        if name not in names_in(file):  # of one case, make test and make test-all are the same
            yield f"{mutation.title}: expected a whole test, found {test}"


def test_what_is_wrong_with_a_mutation_is_said() -> None:
    test = "tests/unit/test_mutations.py::test_a_key_that_nobody_knows_is_refused"
    said = {"guards": "a", "without": "b", "file": "scripts/mutate.py", "old": "import", "new": "x"}
    assert "once" in next(wrong_with(Mutation.parse({**said, "red": [test]})))
    gone = Mutation.parse({**said, "old": "class MutationError(Exception):", "red": [f"{test}_at_all"]})
    assert "whole test" in list(wrong_with(gone))[-1]


def test_what_is_edited_is_built_and_sealed_before_the_tests_run() -> None:
    """Else they try what was there before, and stay green."""
    for mutation in MUTATIONS:
        edited = [edit.file for edit in mutation.edits]
        assert mutation.build is any(file.startswith("crates/") for file in edited), mutation.title
        assert mutation.seal is any(file.startswith(".ai/") for file in edited), mutation.title


@pytest.mark.parametrize("text", ["no guard here", "guard, guard"])
def test_an_edit_that_could_mean_several_places_or_none_is_refused(text: str) -> None:
    with pytest.raises(MutationError, match=r"expected 'guard' once in a\.py"):
        Edit("a.py", "guard", "").applied_to(text.replace("no guard", "none"))


def test_a_key_that_nobody_knows_is_refused() -> None:
    with pytest.raises(MutationError, match="sealed"):
        Mutation.parse({"guards": "a", "without": "b", "red": [], "sealed": True})
