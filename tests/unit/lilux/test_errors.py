"""The tree of errors is what its docstring draws."""

from __future__ import annotations

import dataclasses
import pickle

import pytest

from lilux.primitives import errors


def test_the_public_names_are_those_listed() -> None:
    public = {
        name
        for name, item in vars(errors).items()
        if isinstance(item, type) and item.__module__ == errors.__name__
    }
    assert public == set(errors.__all__)


@pytest.mark.parametrize(
    "error",
    [
        errors.IntegrityError("m"),
        errors.LockfileError("m"),
        errors.ConfigurationError("m"),
        errors.SupervisorError("m", code="lost"),
    ],
)
def test_every_failure_to_run_a_tool_is_a_tool_execution_error(error: errors.ToolExecutionError) -> None:
    assert isinstance(error, errors.ToolExecutionError)
    assert (str(error), error.message, error.cause) == ("m", "m", None)


@pytest.mark.parametrize("kind", [errors.AuthenticationRequired, errors.ValidationError])
def test_what_is_no_failure_to_run_a_tool_stands_apart(kind: type[Exception]) -> None:
    assert not issubclass(kind, errors.ToolExecutionError)


def test_a_cause_is_kept_and_chained() -> None:
    cause = OSError("disk")
    error = errors.ToolExecutionError("m", cause)
    assert error.cause is cause
    assert error.__cause__ is cause


def test_an_integrity_error_carries_what_was_compared_as_attributes() -> None:
    error = errors.IntegrityError("m", expected="a", actual="b")
    assert (vars(error)["expected"], vars(error)["actual"]) == ("a", "b")
    assert error.attributes == {"expected": "a", "actual": "b"}


def test_a_lockfile_error_can_be_caught_as_a_value_error() -> None:
    with pytest.raises(ValueError, match="m") as caught:
        raise errors.LockfileError("m", path="a.json")
    assert isinstance(caught.value, errors.LockfileError)
    assert caught.value.path == "a.json"


def test_the_optional_parts_are_attributes() -> None:
    assert errors.ConfigurationError("m", field="args[0]").field == "args[0]"
    assert errors.AuthenticationRequired("m", service="s").service == "s"
    supervisor = errors.SupervisorError("m", code="not_permitted", stage="kill", errno=1)
    assert (supervisor.code, supervisor.stage, supervisor.errno) == ("not_permitted", "kill", 1)


def test_a_validation_error_is_a_value_and_can_be_raised() -> None:
    error = errors.ValidationError(field="age", error="expected a number", value="x")
    assert dataclasses.asdict(error) == {"field": "age", "error": "expected a number", "value": "x"}
    assert error == errors.ValidationError("age", "expected a number", "x")
    assert str(error) == "age: expected a number"
    assert str(errors.ValidationError("", "expected an object")) == "expected an object"
    assert pickle.loads(pickle.dumps(error)) == error  # noqa: S301
    with pytest.raises(errors.ValidationError):
        raise error
