"""What a script that names no executor is told to say, and that a runtime is there for it."""

from __future__ import annotations

from pathlib import Path

import pytest

import rye_mcp
from rye_mcp.items import EXTENSIONS, ItemType
from rye_mcp.metadata import RUNTIMES, how_to_name_an_executor, parse_metadata
from rye_mcp.spaces import Spaces
from rye_mcp.verbs.new import LANGUAGES
from tests.metadata_helpers import item

BASH = "rye/core/runtimes/bash_runtime"
WHERE = "/work/project/.ai/tools/demo/hello"


def told(content: str, extension: str) -> str | None:
    file = item(content, extension)
    return how_to_name_an_executor(file, parse_metadata(file))


@pytest.mark.parametrize("extension", RUNTIMES)
def test_every_runtime_that_is_named_is_one_of_the_system_space(extension: str) -> None:
    assert extension in EXTENSIONS[ItemType.TOOL]
    runtime = Spaces.locate().system.root / "tools" / RUNTIMES[extension]
    (file,) = runtime.parent.glob(f"{runtime.name}.*")
    found = item(file.read_bytes(), file.suffix, item_id=RUNTIMES[extension])
    assert parse_metadata(found).is_runtime


@pytest.mark.parametrize("language", ["python", "bash", "node", "ruby", "perl"])
def test_a_script_is_told_the_runtime_that_a_new_tool_of_its_language_has(language: str) -> None:
    template = LANGUAGES[language]
    written = Path(rye_mcp.__file__).parent.joinpath("templates", template.file).read_bytes()
    metadata = parse_metadata(item(written, template.extension))
    assert RUNTIMES[template.extension] == metadata.executor_id


TOLD = [
    (
        "echo hello\n",
        ".sh",
        f"write the three lines '# /// rye', '# executor_id: {BASH}' and '# ///' into {WHERE}.sh",
    ),
    (
        "# /// rye\n# description: Says hello.\n# ///\necho hello\n",
        ".sh",
        f"write the line '# executor_id: {BASH}' into the block '# /// rye' of {WHERE}.sh",
    ),
    (
        "async def main():\n    return 1\n",
        ".py",
        f"write the line '__executor_id__ = \"rye/core/runtimes/python_runtime\"' into {WHERE}.py",
    ),
    (
        "print('main')\n",
        ".py",
        f"write the line '__executor_id__ = \"rye/core/runtimes/python_script_runtime\"' into {WHERE}.py",
    ),
    (
        "console.log(1)\n",
        ".mjs",
        "write the three lines '// /// rye', '// executor_id: rye/core/runtimes/node_runtime' and '// ///' "
        f"into {WHERE}.mjs",
    ),
    ("name: hello\n", ".yaml", None),
    ("fn main() {}\n", ".rs", None),
    ("__tool_type__ = 'library'\n", ".py", None),
    ("# /// rye\n# tool_type: library\n# ///\n", ".sh", None),
]


@pytest.mark.parametrize(("content", "extension", "expected"), TOLD)
def test_what_is_told_fits_the_file(content: str, extension: str, expected: str | None) -> None:
    assert told(content, extension) == expected
