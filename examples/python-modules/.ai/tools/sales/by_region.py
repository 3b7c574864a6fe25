"""Sum up the sales of each region in a CSV file of the project."""

import csv
from collections import defaultdict
from pathlib import Path

from money import shown, total

__version__ = "1.0.0"
__executor_id__ = "rye/core/runtimes/python_function_runtime"
__tags__ = ["sales", "report", "csv"]
CONFIG_SCHEMA = {
    "type": "object",
    "properties": {
        "file": {"type": "string", "default": "sales.csv", "description": "With columns region and amount."},
        "least": {"type": "number", "default": 0, "description": "Leave out regions below this sum."},
    },
    "additionalProperties": False,
}
OUTPUT_SCHEMA = {"type": "object", "additionalProperties": {"type": "string"}}
ANNOTATIONS = {"title": "Sales by region", "readOnlyHint": True}
EXAMPLES = [
    {
        "description": "Two regions, the larger one first.",
        "files": {"sales.csv": "region,amount\nnorth,10.10\nsouth,20\nnorth,5.05\n"},
        "parameters": {},
        "expect": {"data": {"south": "20.00", "north": "15.15"}},
    },
    {
        "description": "A region that is too small is left out.",
        "files": {"sales.csv": "region,amount\nnorth,10.10\nsouth,20\n"},
        "parameters": {"least": 15},
        "expect": {"data": {"south": "20.00"}},
    },
    {
        "description": "A file that is not there is a failure, and not an empty report.",
        "parameters": {"file": "nothing.csv"},
        "expect": {"code": "tool_failed"},
    },
]


def execute(params, project_path):
    amounts = defaultdict(list)
    with Path(project_path, params["file"]).open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            amounts[row["region"]].append(row["amount"])
    sums = {region: total(each) for region, each in amounts.items()}
    kept = sorted((each for each in sums.items() if each[1] >= params["least"]), key=lambda each: -each[1])
    return {region: shown(each) for region, each in kept}
