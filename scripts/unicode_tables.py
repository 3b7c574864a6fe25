"""Write src/rye_mcp/unicode_tables.py from the Unicode data of Node.js; run it for a new version.

Python knows general categories, but neither Default_Ignorable_Code_Point nor Extended_Pictographic. The
regular expressions of Node.js know both, so nothing is downloaded. `tests/unit/rye_mcp/test_visible.py`
compares the result with `unicodedata`, and with what this script writes.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Final

TARGET: Final = Path(__file__).parent.parent / "src/rye_mcp/unicode_tables.py"

TABLES: Final = {
    "UNSEEN": (r"[\p{Default_Ignorable_Code_Point}\p{Cf}]", "Default_Ignorable_Code_Point, or Cf"),
    "EMOJI": (
        r"(?=\p{Emoji})\p{Extended_Pictographic}",
        "Emoji and Extended_Pictographic; U+FE0F may follow",
    ),
}

_ASK: Final = """
const ranges = (pattern) => {
  const expression = new RegExp(`^(?:${pattern})$`, "u");
  const found = [];
  for (let code = 0; code <= 0x10ffff; code++) {
    if (!expression.test(String.fromCodePoint(code))) continue;
    const last = found.at(-1);
    if (last && last[1] === code - 1) last[1] = code; else found.push([code, code]);
  }
  return found;
};
const patterns = JSON.parse(process.argv[1]);
console.log(JSON.stringify([process.versions.unicode, patterns.map(ranges)]));
"""

_HEAD: Final = '''"""Classes of characters for regular expressions, from Unicode {version}.

scripts/unicode_tables.py writes this file.
"""

from __future__ import annotations

from typing import Final

__all__ = ["EMOJI", "UNICODE_VERSION", "UNSEEN"]

UNICODE_VERSION: Final = "{version}"
'''


def main() -> None:
    """Write the tables."""
    TARGET.write_text(tables(), encoding="utf-8")


def tables() -> str:
    """The module, as Node.js has the classes of characters."""
    patterns = [pattern for pattern, _ in TABLES.values()]
    asked = subprocess.run(  # noqa: S603 - Node.js, with the program above
        ["node", "-e", _ASK, json.dumps(patterns)],  # noqa: S607
        check=True,
        capture_output=True,
        text=True,
    )
    version, found = json.loads(asked.stdout)
    parts = [_HEAD.format(version=version)]
    for (name, (_, meaning)), ranges in zip(TABLES.items(), found, strict=True):
        parts.append(f'\n{name}: Final = (\n{_lines(ranges)})\n"""{meaning}."""\n')
    return "".join(parts)


def _lines(ranges: list[list[int]]) -> str:
    shown = [_escaped(first) + (f"-{_escaped(last)}" if last > first else "") for first, last in ranges]
    rows = [shown[at : at + 4] for at in range(0, len(shown), 4)]
    return "".join(f'    "{"".join(row)}"\n' for row in rows)


def _escaped(code: int) -> str:
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


if __name__ == "__main__":
    main()
