"""Call main(**parameters) of a Python file, else execute(params, project_path); what it returns is its result.

A runtime in a Python file: nothing here is run, its values are read as data.
"""

__version__ = "1.0.0"
__tool_type__ = "runtime"
__executor_id__ = "rye/core/primitives/subprocess"
__category__ = "rye/core/runtimes"
__warm__ = {"prepare": "python", "keep": 4}

ENV_CONFIG = {
    "interpreter": {
        "type": "venv_python",
        "search": ["project", "user", "system"],
        "var": "RYE_PYTHON",
        "fallback": "python3",
    },
    "env": {
        "PYTHONUNBUFFERED": "1",
        "PYTHONUTF8": "1",
        "PROJECT_VENV_PYTHON": "${RYE_PYTHON}",
    },
}

CONFIG = {
    "command": "${RYE_PYTHON}",
    "args": ["-s", "-B", "{runtime_lib}/call_function.py", "main,execute", "{tool_path}", "{project_path}"],
    "input_data": "{params_json}",
}

ANCHOR = {
    "enabled": True,
    "mode": "auto",
    "markers_any": ["__init__.py", "pyproject.toml"],
    "root": "tool_dir",
    "lib": "lib/python",
    "env_paths": {"PYTHONPATH": {"prepend": ["{anchor_path}", "{runtime_lib}"]}},
}

VERIFY_DEPS = {
    "enabled": True,
    "scope": "anchor",
    "recursive": True,
    "extensions": [".py"],
    "exclude_dirs": ["__pycache__"],
}
