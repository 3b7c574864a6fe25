"""The permissions of a tool: the value, its order, its words, and who may grant how much. No I/O here.

The rules are in `docs/architecture/permissions.md`.

    permissions, problems = read_permissions({"project": "read", "net": ["api.github.com"]})
    sentence(permissions)  # 'may read this project; may reach api.github.com:443; nothing else'
"""

from rye_mcp.permissions._grants import (
    ANY_HOST,
    CLOSED,
    CREDENTIALS,
    DEFAULT_PORT,
    VARIABLE_PATTERN,
    Host,
    allows_call,
    below_any,
    problem_of_host,
)
from rye_mcp.permissions._policy import Action, Isolation, Rule, Undeclared, judge, read_isolation, read_rules
from rye_mcp.permissions._reading import NEEDS_SCHEMA, PERMISSIONS_SCHEMA, read_needs, read_permissions
from rye_mcp.permissions._signers import Effective, effective, taken_to_declare
from rye_mcp.permissions._value import UNCONFINED, USES, Access, Permissions, Requirement
from rye_mcp.permissions._words import difference, hints, phrases, sentence

__all__ = [
    "ANY_HOST",
    "CLOSED",
    "CREDENTIALS",
    "DEFAULT_PORT",
    "NEEDS_SCHEMA",
    "PERMISSIONS_SCHEMA",
    "UNCONFINED",
    "USES",
    "VARIABLE_PATTERN",
    "Access",
    "Action",
    "Effective",
    "Host",
    "Isolation",
    "Permissions",
    "Requirement",
    "Rule",
    "Undeclared",
    "allows_call",
    "below_any",
    "difference",
    "effective",
    "hints",
    "judge",
    "phrases",
    "problem_of_host",
    "read_isolation",
    "read_needs",
    "read_permissions",
    "read_rules",
    "sentence",
    "taken_to_declare",
]
