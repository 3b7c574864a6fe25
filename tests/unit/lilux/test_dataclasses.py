"""Each class is made twice, by the standard library and by `lilux._dataclasses`: they behave the same."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import FrozenInstanceError, asdict, field, fields, replace
from typing import Any

import pytest

from lilux import _dataclasses

Decorator = Callable[..., Any]
both = pytest.mark.parametrize("dataclass", [dataclasses.dataclass, _dataclasses.dataclass])
frozen = pytest.mark.parametrize("options", [{"frozen": True}, {"frozen": True, "slots": True}])
OPTIONS: list[dict[str, bool]] = [
    {"frozen": is_frozen, "slots": has_slots, "kw_only": by_name}
    for is_frozen in (True, False)
    for has_slots in (True, False)
    for by_name in (True, False)
]


def point(dataclass: Decorator, **options: bool) -> Any:
    @dataclass(**options)
    class Point:
        x: int
        y: int = 2
        names: list[str] = field(default_factory=list, compare=False)
        secret: str = field(default="s", repr=False)

        @property
        def total(self) -> int:
            return self.x + self.y

    return Point


def seen(made: Any) -> Mapping[str, Any]:
    """All that a caller sees of a class and of its values."""
    value = made(x=1, y=3)
    return {
        "repr": repr(value).rpartition(".")[2],
        "fields": [(each.name, each.type, each.default) for each in fields(made)],
        "dict": asdict(value),
        "replaced": asdict(replace(value, x=5)),
        "equal": [value == made(x=1, y=3, names=["other"]), value == made(x=2), value == (1, 3)],
        "hash": made.__hash__ and hash(value) == hash(made(x=1, y=3)),
        "match": made.__match_args__,
        "has a dict": hasattr(value, "__dict__"),
        "total": value.total,
        "fresh": made(x=1).names is not made(x=1).names,
        "doc": made.__doc__ is not None,
    }


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_class_and_its_values_are_those_of_the_standard_library(options: dict[str, bool]) -> None:
    assert seen(point(_dataclasses.dataclass, **options)) == seen(point(dataclasses.dataclass, **options))


@both
@pytest.mark.parametrize(
    ("options", "args", "kwargs"),
    [
        ({}, (), {}),
        ({}, (1, 2, [], "s", 5), {}),
        ({}, (1,), {"x": 1}),
        ({}, (1,), {"z": 1}),
        ({"kw_only": True}, (1,), {}),
    ],
    ids=["missing", "too many", "twice", "unknown", "by position"],
)
def test_wrong_arguments_are_refused_every_time(
    dataclass: Decorator, options: dict[str, bool], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    made = point(dataclass, **options)
    for _ in range(2):
        with pytest.raises(TypeError, match=r"Point\.__init__\(\)"):
            made(*args, **kwargs)


@both
@frozen
def test_a_frozen_value_cannot_be_changed(dataclass: Decorator, options: dict[str, bool]) -> None:
    value = point(dataclass, **options)(1)
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'x'"):
        value.x = 2
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'x'"):
        del value.x
    assert value.x == 1


@both
def test_what_a_class_writes_itself_stays(dataclass: Decorator) -> None:
    @dataclass(frozen=True)
    class Own:
        x: int

        double: int = field(init=False)

        def __post_init__(self) -> None:
            if self.x < 0:
                raise ValueError("negative")
            object.__setattr__(self, "double", 2 * self.x)

        def __repr__(self) -> str:
            return "own"

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 7

    assert Own(1).double == 2
    assert (repr(Own(1)), Own(1) == Own(2), hash(Own(1))) == ("own", True, 7)
    with pytest.raises(ValueError, match="negative"):
        Own(-1)


@both
def test_a_class_without_eq_is_compared_by_identity(dataclass: Decorator) -> None:
    made = point(dataclass, eq=False, slots=True)
    value = made(1)
    assert value == value
    assert value != made(1)
    assert isinstance(hash(value), int)


@both
@frozen
def test_a_class_inherits_the_fields_of_another(dataclass: Decorator, options: dict[str, bool]) -> None:
    base = point(dataclass, **options)

    @dataclass(**options)
    class Further(base):  # type: ignore[misc, valid-type]
        z: int = 3

    base(1)  # the base is complete before the other is first made
    value = Further(1, z=5)
    assert (value.x, value.y, value.z, value.total) == (1, 2, 5, 3)
    assert value != base(1)


@both
def test_a_plain_subclass_may_be_made_first(dataclass: Decorator) -> None:
    base = point(dataclass, frozen=True)

    class Further(base):  # type: ignore[misc, valid-type]
        pass

    assert type(Further(1)) is Further
    assert (Further(1) == base(1), base(1).x) == (False, 1)
