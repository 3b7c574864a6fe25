"""`dataclass` as in the standard library, but its methods are made when they are first needed.

The standard library compiles up to six methods of each class while its module is imported: for the two
hundred classes of a short command, that took a quarter of its time. `fields`, `replace` and `asdict` work as
ever. Nothing here uses `order`, `unsafe_hash`, `InitVar`, pickles, or a default with `init=False`: they fail.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, FrozenInstanceError, fields
from dataclasses import dataclass as _standard_dataclass  # noqa: TID251
from operator import attrgetter
from reprlib import recursive_repr
from types import MemberDescriptorType
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

__all__ = ["dataclass"]

T = TypeVar("T")


def _decorated(
    made: type[T] | None = None,
    /,
    *,
    frozen: bool = False,
    eq: bool = True,
    slots: bool = False,
    kw_only: bool = False,
) -> Any:
    """Make a dataclass of a class; see `dataclasses.dataclass` for what the options mean."""
    if made is None:
        return lambda cls: _decorated(cls, frozen=frozen, eq=eq, slots=slots, kw_only=kw_only)
    if made.__doc__ is None:
        made.__doc__ = made.__name__  # or the standard library would put the signature together
    cls = _standard_dataclass(init=False, repr=False, eq=False, slots=slots, kw_only=kw_only)(made)
    methods: dict[str, Any] = {"__init__": _maker(cls, frozen=frozen), "__repr__": _repr}
    if eq:
        methods["__eq__"], hashed = _comparison(cls)
        if not cls.__dict__.get("__hash__"):
            cls.__hash__ = hashed if frozen else None  # type: ignore[method-assign, assignment]
    if frozen:
        methods |= {"__setattr__": _refuse_to_set, "__delattr__": _refuse_to_delete}
    for name in methods.keys() - cls.__dict__.keys():
        setattr(cls, name, methods[name])
    return cls


def _maker(cls: type, *, frozen: bool) -> Callable[..., None]:
    """The `__init__` of a class: it puts the compiled one in its own place when it is first called."""

    def __init__(self: object, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        compiled = _compiled(cls, frozen=frozen)
        cls.__init__ = compiled  # type: ignore[misc]
        compiled(self, *args, **kwargs)

    return __init__


def _compiled(cls: type, *, frozen: bool) -> Callable[..., None]:
    names: dict[str, Any] = {"_set": object.__setattr__, "_missing": MISSING}
    positional, named, body = ["self"], ["*"], []
    for field in filter(attrgetter("init"), fields(cls)):  # `__post_init__` sets the others
        name = value = parameter = field.name
        if field.default is not MISSING:
            parameter = f"{name}=_default_{name}"
            names[f"_default_{name}"] = field.default
        elif field.default_factory is not MISSING:
            parameter = f"{name}=_missing"
            value = f"_make_{name}() if {name} is _missing else {name}"
            names[f"_make_{name}"] = field.default_factory
        (named if field.kw_only else positional).append(parameter)
        body.append(_assignment(cls, name, value, names) if frozen else f"self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    parameters = ", ".join(positional + (named if len(named) > 1 else []))
    lines = "\n ".join(body or ["pass"])
    exec(f"def __init__({parameters}):\n {lines}", names)  # noqa: S102 - made of names of fields
    made: Callable[..., None] = names["__init__"]
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    return made


def _assignment(cls: type, name: str, value: str, names: dict[str, Any]) -> str:
    """A line that sets a field of a frozen value; its slot itself takes half as long as its name."""
    slot = getattr(cls, name, None)
    if not isinstance(slot, MemberDescriptorType):
        return f"_set(self, {name!r}, {value})"
    names[f"_put_{name}"] = slot.__set__
    return f"_put_{name}(self, {value})"


@recursive_repr()
def _repr(self: Any) -> str:
    shown = (f"{field.name}={getattr(self, field.name)!r}" for field in fields(self) if field.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _comparison(cls: type) -> tuple[Callable[[Any, object], bool], Callable[[Any], int]]:
    """The `__eq__` and the `__hash__` of a class."""
    names = [field.name for field in fields(cls) if field.compare]
    compared: Callable[[Any], Any] = attrgetter(*names) if names else lambda _: ()

    def __eq__(self: Any, other: object) -> bool:  # noqa: N807
        return compared(self) == compared(other) if type(other) is type(self) else NotImplemented

    def __hash__(self: Any) -> int:  # noqa: N807
        return hash(compared(self))

    return __eq__, __hash__


def _refuse_to_set(self: object, name: str, value: object) -> NoReturn:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(self: object, name: str) -> NoReturn:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


if TYPE_CHECKING:
    from dataclasses import dataclass  # noqa: TID251
else:
    dataclass = _decorated
