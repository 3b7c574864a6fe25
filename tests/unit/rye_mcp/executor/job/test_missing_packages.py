"""The hint for a program that looked for a package in vain."""

from __future__ import annotations

import pytest

from rye_mcp.executor.job.outcomes import missing_package_hint

HINTS = {
    "Python": (
        "ModuleNotFoundError: No module named 'click'",
        ['dependencies = ["click"]', "pip install click"],
    ),
    "another name": (
        "ModuleNotFoundError: No module named 'yaml.nodes'",
        ["module yaml", "pip install pyyaml"],
    ),
    "require": ("Error: Cannot find module 'ms'\nRequire stack:", ["npm install ms", "rye trust project"]),
    "import": (
        "Error [ERR_MODULE_NOT_FOUND]: Cannot find package '@a/b' imported from /x",
        ["npm install @a/b"],
    ),
    "TypeScript": (
        "expected tsx, or a Node.js that reads TypeScript (22.18), for x",
        ["npm install tsx in the project"],
    ),
    "an unknown certificate authority": (
        "error: Failed to fetch: https://pypi.org/simple/emoji/\n"
        "  cause: client error (Connect)\n  cause: invalid peer certificate: UnknownIssuer",
        ["set SSL_CERT_FILE"],
    ),
    "a part of a package": ("Error: Cannot find module 'lodash/fp'", ["npm install lodash "]),
}


@pytest.mark.parametrize(("stderr", "parts"), HINTS.values(), ids=HINTS)
def test_a_hint_names_the_package_and_the_ways(stderr: str, parts: list[str]) -> None:
    hint = missing_package_hint(f"before\n{stderr}\n") or ""
    assert all(part in hint for part in parts), hint


NO_HINTS = {
    "a command behind the name": "ModuleNotFoundError: No module named 'x; rm -rf ~'",
    "a line end": "ModuleNotFoundError: No module named 'x\\nrye keys revoke'",
    "an option": "Error: Cannot find module '--global'",
    "a file": "Error: Cannot find module './helper'",
    "a path": "Error: Cannot find module '/tmp/x'",
    "in a sentence": "it said ModuleNotFoundError: No module named 'click'",
    "the standard library": "ModuleNotFoundError: No module named 'json.nothing'",
    "too long": f"ModuleNotFoundError: No module named '{'x' * 200}'",
    "long ago": "ModuleNotFoundError: No module named 'click'\n" + "x\n" * 8192,
}


@pytest.mark.parametrize("stderr", NO_HINTS.values(), ids=NO_HINTS)
def test_nothing_else_becomes_a_hint(stderr: str) -> None:
    assert missing_package_hint(stderr) is None
