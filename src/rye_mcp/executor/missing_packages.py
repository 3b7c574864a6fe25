"""What to write, and where, when a program has looked for a package that is not there.

Rules:

- Only the last lines of standard error are looked at, and of these only a name: a tool cannot put words into
  the mouth of this program. A name that is not that of a package gives no hint.
- A hint names every way that there is, with the lines to write; it installs nothing.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

__all__ = ["missing_package_hint"]

_LOOKED_AT: Final = 8 << 10
"""How much of standard error, from its end: 8 KiB."""

_PYTHON: Final = re.compile(
    r"^ModuleNotFoundError: No module named '([A-Za-z_][A-Za-z0-9_.]{0,99})'", re.M | re.A
)
_NODE: Final = re.compile(
    r"(?:^Error: Cannot find module '|^Error \[ERR_MODULE_NOT_FOUND\]: Cannot find (?:package|module) ')"
    r"((?:@[a-z0-9][a-z0-9._-]{0,99}/)?[a-zA-Z0-9][a-zA-Z0-9._-]{0,99})(?:/[A-Za-z0-9._/-]{0,200})?'",
    re.MULTILINE | re.ASCII,
)

_NO_TSX: Final = re.compile(r"^expected tsx, or a Node\.js that reads TypeScript", re.MULTILINE)

_UNKNOWN_ISSUER: Final = re.compile(r"^\s+cause: invalid peer certificate: (UnknownIssuer)$", re.MULTILINE)

_PACKAGES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "attr": "attrs",
        "bs4": "beautifulsoup4",
        "cv2": "opencv-python",
        "dateutil": "python-dateutil",
        "dotenv": "python-dotenv",
        "PIL": "pillow",
        "serial": "pyserial",
        "skimage": "scikit-image",
        "sklearn": "scikit-learn",
        "yaml": "pyyaml",
    }
)
"""Modules whose package has another name."""


def missing_package_hint(stderr: str) -> str | None:
    """The hint for what a program wrote when it ended; None when no package was missing."""
    end = stderr[-_LOOKED_AT:]
    for pattern, hint in _HINTS:
        if found := pattern.findall(end):
            return hint(found[-1])
    return None


def _of_python(module: str) -> str | None:
    name = module.partition(".")[0]
    if name in sys.stdlib_module_names:
        return None
    package = _PACKAGES.get(name, name)
    return (
        f"the module {name} is not installed where this tool runs. Either let uv install it: write "
        f"'# /// script', '# dependencies = [\"{package}\"]' and '# ///' at the top of the file, and name "
        "rye/core/runtimes/uv_script_runtime as its executor. Or install it in the project: python3 -m venv "
        f".venv && .venv/bin/pip install {package} && rye trust project. Look first whether the package is "
        "really called so, and sign the tool again if you changed it"
    )


def _of_node(package: str) -> str | None:
    return (
        f"the package {package} is not installed where this tool runs: in the project, run "
        f"npm install {package} (it writes package.json, and node_modules), then approve the project: "
        "rye trust project. Packages of a project that nobody approved are not used"
    )


def _of_typescript(found: str) -> str:
    return (
        "npm install tsx in the project, then approve the project: rye trust project; or install it for all "
        "projects: npm install --global tsx"
    )


def _of_uv(found: str) -> str:
    return (
        "uv does not trust the certificate of the server that has the packages. If your network has a "
        "certificate authority of its own, set SSL_CERT_FILE to its file where rye-mcp runs"
    )


_HINTS: Final[tuple[tuple[re.Pattern[str], Callable[[str], str | None]], ...]] = (
    (_PYTHON, _of_python),
    (_NODE, _of_node),
    (_NO_TSX, _of_typescript),
    (_UNKNOWN_ISSUER, _of_uv),
)
