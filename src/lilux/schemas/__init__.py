"""JSON Schemas: whether values fit one, and what it says is there by default."""

from lilux.schemas.schema_validator import ValidationResult, apply_defaults, validate_parameters

__all__ = ["ValidationResult", "apply_defaults", "validate_parameters"]
