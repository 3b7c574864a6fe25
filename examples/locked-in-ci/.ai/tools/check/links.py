"""Check that every link of a Markdown file of the project leads to a file."""

import re
from pathlib import Path

__version__ = "1.0.0"
__executor_id__ = "rye/core/runtimes/python_function_runtime"
__tags__ = ["markdown", "links", "check"]
CONFIG_SCHEMA = {
    "type": "object",
    "properties": {"file": {"type": "string", "default": "GUIDE.md"}},
    "additionalProperties": False,
}
ANNOTATIONS = {"title": "Check links", "readOnlyHint": True}
EXAMPLES = [
    {
        "description": "Find broken links in a Markdown page.",
        "files": {"GUIDE.md": "[a](b.md) [c](https://example.org)", "b.md": "b"},
        "parameters": {},
        "expect": {"contains": {"checked": 1, "broken": []}},
    },
    {
        "files": {"GUIDE.md": "[a](nowhere.md)"},
        "parameters": {},
        "expect": {"code": "tool_failed"},
    },
]


def execute(params, project_path):
    page = Path(project_path, params["file"])
    targets = re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8"))
    inside = [target for target in targets if not re.match(r"[a-z]+:", target)]
    broken = [target for target in inside if not (page.parent / target).exists()]
    return {"success": not broken, "checked": len(inside), "broken": broken}
