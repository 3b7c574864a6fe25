"""Ajv, the validator of most clients, reads every schema of the package in its strict mode."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.node_world import *  # noqa: F403
from tests.node_world import NodePrograms
from tests.system_schemas import schemas_of_the_package

pytestmark = pytest.mark.timeout(300)  # the first one may have to install it

SCRIPT = Path(__file__).parent / "strict_schemas.mjs"

BROKEN = {"properties": {"id": {"type": "string", "description": "What status", "logs and kill take.": None}}}


def test_a_strict_validator_reads_every_schema_of_the_package(node: NodePrograms, tmp_path: Path) -> None:
    assert _refused(node, tmp_path, schemas_of_the_package()) == {}


def test_a_strict_validator_refuses_an_unknown_keyword(node: NodePrograms, tmp_path: Path) -> None:
    assert "logs and kill take." in _refused(node, tmp_path, {"broken": BROKEN})["broken"]


def _refused(node: NodePrograms, place: Path, schemas: Mapping[str, Any]) -> dict[str, str]:
    """What Ajv says of the schemas that it does not read."""
    file = place / "schemas.json"
    file.write_text(json.dumps(schemas))
    done = node.run(str(SCRIPT), str(node.place), str(file), env={"HOME": str(place)}, cwd=place)
    assert done.returncode == 0, done.stderr
    refused: dict[str, str] = json.loads(done.stdout)
    return refused
