"""JSON Schemas: whether values fit one, and what it says is there by default."""

from lilux.schemas.schema_validator import (
    Examination,
    ValidationResult,
    apply_defaults,
    examine,
    is_quick,
    validate_parameters,
)

__all__ = ["Examination", "ValidationResult", "apply_defaults", "examine", "is_quick", "validate_parameters"]
