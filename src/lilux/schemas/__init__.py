"""JSON Schemas: whether values fit one, and what it says is there by default."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lilux.schemas.schema_validator import (
        Examination,
        ValidationResult,
        apply_defaults,
        examine,
        is_quick,
        unknown_keywords,
        validate_parameters,
    )

__all__ = [
    "Examination",
    "ValidationResult",
    "apply_defaults",
    "examine",
    "is_quick",
    "unknown_keywords",
    "validate_parameters",
]


def __getattr__(name: str) -> Any:
    """Load the validator when it is asked for: `quick_validator` can do without."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from lilux.schemas import schema_validator

    return getattr(schema_validator, name)
