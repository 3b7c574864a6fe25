"""The languages that runtimes are there for, and the same small tools in each of them.

A `Language` says how a tool is written in it that gives its parameters back, fails, raises, or takes too
long; tests are then the same for all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

__all__ = ["FUNCTIONS", "LANGUAGES", "Language"]


@dataclass(frozen=True)
class Language:
    """One runtime, and tools for it.

    `echo` gives its parameters back, `noisy` prints a line that is no JSON before it does so, `measure`
    tells how many characters `text` has, `fail` ends with exit code 3, `crash` raises an error whose message
    is `text`, in line `crash_line` of the signed file, and `wait` prints its pid at once and sleeps.
    `neighbour` is a file that an unwary interpreter would read in place of its own library when it stands
    beside a tool or in the project. One that is `on_argv` has its parameters there, and so a limit for them.
    """

    runtime: str
    extension: str
    program: str
    head: str
    echo: str
    noisy: str
    measure: str
    fail: str
    crash: str
    wait: str
    crash_line: int
    neighbour: tuple[str, str]
    on_argv: bool = False

    def source(self, body: str) -> str:
        """The whole text of a tool."""
        return f"{self.head.format(runtime=self.runtime)}{body}"


def _block(comment: str) -> str:
    schema = "config_schema: {{type: object, properties: {{text: {{type: string}}}}}}"
    lines = ("/// rye", "version: 1.0.0", "executor_id: {runtime}", schema, "///")
    return "".join(f"{comment} {line}\n" for line in lines)


_PYTHON_HEAD = '__version__ = "1.0.0"\n__executor_id__ = "{runtime}"\n'
_SCRIPT_HEAD = f"import json, os, sys\n{_PYTHON_HEAD}params = json.loads(sys.argv[2])\n"
_EVIL_PYTHON = ("json.py", "raise SystemExit('the neighbour was imported')\n")
_EVIL_PACKAGE = ("../package.json", '{"type": "module"}\n')

_PYTHON_SCRIPT = Language(
    runtime="rye/core/runtimes/python_script_runtime",
    extension=".py",
    program="python3",
    head=_SCRIPT_HEAD,
    echo="print(json.dumps(params))\n",
    noisy="print('noise {')\nprint(json.dumps(params))\n",
    measure="print(len(params['text']))\n",
    fail="sys.exit(3)\n",
    crash="raise ValueError(params['text'])\n",
    wait="import time\nprint(os.getpid(), flush=True)\ntime.sleep(1000)\n",
    crash_line=6,
    neighbour=_EVIL_PYTHON,
    on_argv=True,
)


def _python_function(runtime: str, signature: str, params: str) -> Language:
    return Language(
        runtime=runtime,
        extension=".py",
        program="python3",
        head=_PYTHON_HEAD,
        echo=f"def {signature}:\n    return {params}\n",
        noisy=f"def {signature}:\n    print('noise {{')\n    return {params}\n",
        measure=f"def {signature}:\n    return len({params}['text'])\n",
        fail=f"import sys\ndef {signature}:\n    sys.exit(3)\n",
        crash=f"def {signature}:\n    raise ValueError({params}['text'])\n",
        wait=f"import os, time\ndef {signature}:\n    print(os.getpid(), flush=True)\n    time.sleep(1000)\n",
        crash_line=5,
        neighbour=_EVIL_PYTHON,
    )


LANGUAGES: Final = {
    "python_script": _PYTHON_SCRIPT,
    "python_function": _python_function(
        "rye/core/runtimes/python_function_runtime", "execute(params, project_path)", "params"
    ),
    "python": _python_function("python_runtime", "main(**parameters)", "parameters"),
    "uv_script": replace(
        _PYTHON_SCRIPT,
        runtime="rye/core/runtimes/uv_script_runtime",
        program="uv",
        head=f"# /// script\n# dependencies = []\n# ///\n{_SCRIPT_HEAD}",
        crash_line=9,
    ),
    "bash": Language(
        runtime="rye/core/runtimes/bash_runtime",
        extension=".sh",
        program="bash",
        head=_block("#"),
        echo="cat\n",
        noisy="echo 'noise {'; cat\n",
        measure='[[ $(cat) =~ ^.{9}(.*).{2}$ ]] && echo "${#BASH_REMATCH[1]}"\n',
        fail="exit 3\n",
        crash='echo "$BASH_SOURCE:$LINENO: $RYE_PARAM_text" >&2; exit 1\n',
        wait="echo $$; exec sleep 1000\n",
        crash_line=7,
        neighbour=("cat", "#!/bin/sh\necho 'the neighbour was run'\n"),
    ),
    "node": Language(
        runtime="node_runtime",
        extension=".js",
        program="node",
        head=_block("//"),
        echo="exports.execute = (params) => params;\n",
        measure="exports.execute = ({ text }) => text.length;\n",
        noisy="exports.execute = async (params) => { console.log('noise {'); return params; };\n",
        fail="process.exit(3);\n",
        crash="exports.execute = (params) => { throw new Error(params.text); };\n",
        wait="console.log(process.pid); setTimeout(() => {}, 1000000);\n",
        crash_line=7,
        neighbour=_EVIL_PACKAGE,
    ),
    "node_module": Language(
        runtime="node_runtime",
        extension=".mjs",
        program="node",
        head=_block("//"),
        echo="export const execute = async (params) => params;\n",
        measure="export const execute = ({ text }) => text.length;\n",
        noisy="export function execute(params) { console.log('noise {'); return params; }\n",
        fail="process.exit(3);\n",
        crash="export async function execute(params) { throw new Error(params.text); }\n",
        wait="console.log(process.pid); await new Promise((done) => setTimeout(done, 1000000));\n",
        crash_line=7,
        neighbour=_EVIL_PACKAGE,
    ),
    "ruby": Language(
        runtime="rye/core/runtimes/ruby_runtime",
        extension=".rb",
        program="ruby",
        head=_block("#"),
        echo="def execute(params) = params\n",
        measure="def execute(params) = params['text'].length\n",
        noisy="def execute(params)\n  puts 'noise {'\n  params\nend\n",
        fail="exit 3\n",
        crash="def execute(params) = raise(ArgumentError, params['text'])\n",
        wait="puts $$\n$stdout.flush\nsleep\n",
        crash_line=7,
        neighbour=("json.rb", "abort 'the neighbour was required'\n"),
    ),
    "perl": Language(
        runtime="rye/core/runtimes/perl_runtime",
        extension=".pl",
        program="perl",
        head=_block("#"),
        echo="sub execute { return shift }\n",
        measure="sub execute { my ($params) = @_; return length $params->{text} }\n",
        noisy='sub execute { print "noise {\\n"; return shift }\n',
        fail="exit 3;\n",
        crash="sub execute { my ($params) = @_; die $params->{text} }\n",
        wait="$| = 1; print $$; sleep 1000;\n",
        crash_line=7,
        neighbour=("JSON/PP.pm", "die 'the neighbour was required'\n"),
    ),
    "binary": Language(
        runtime="rye/core/runtimes/binary_runtime",
        extension="",
        program="bash",
        head=f"#!/usr/bin/env bash\n{_block('#')}",
        echo="cat\n",
        noisy="echo 'noise {'; cat\n",
        measure='[[ $(cat) =~ ^.{9}(.*).{2}$ ]] && echo "${#BASH_REMATCH[1]}"\n',
        fail="exit 3\n",
        crash='echo "$BASH_SOURCE:$LINENO: $RYE_PARAM_text" >&2; exit 1\n',
        wait="echo $$; exec sleep 1000\n",
        crash_line=8,
        neighbour=("cat", "#!/bin/sh\necho 'the neighbour was run'\n"),
    ),
}

FUNCTIONS: Final = ("python_function", "python", "node", "node_module", "ruby", "perl")
"""The languages whose runtime calls a function, and gives its result back apart from what it prints."""
