"""The table of mutations still names texts and tests that are there; `scripts/mutate.py` tries them."""

from __future__ import annotations

import ast
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


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda each: each.title)
def test_what_is_replaced_occurs_once_and_every_red_test_exists(mutation: Mutation) -> None:
    for edit in mutation.edits:
        assert edit.applied_to(text_of(edit.file)) != text_of(edit.file)
    assert mutation.red
    for test in mutation.red:
        file, _, name = test.partition("::")
        assert name in names_in(file), (
            "expected a whole test: of one case, make test and make test-all are the same"
        )


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
