#!/bin/sh
# Runs a Python script under uv, with the packages that its block `# /// script` asks for (PEP 723):
# `run_uv.sh UV TOOL ARGUMENT…`.
#
# uv gets this block and start_uv.py on standard input: what it installs is then kept by what was asked for, and not
# by the place of a copy that is gone after the call. It is started in / since it would look for settings, and run
# the Python of a .venv, where it stands; start_uv.py goes back. Neither may come from a project that nobody approved.

uv=$1 tool=$2
shift 2
fail() {
  printf '%s\n' "$1" >&2
  exit 1
}

[ -n "$uv" ] || fail "expected uv on the PATH, found none: pip install uv, or see https://docs.astral.sh/uv/"
block=$(sed -n '/^# \/\/\/ script$/,/^# \/\/\/$/p' "$tool")
[ -n "$block" ] || fail "expected a block '# /// script' in $tool, found none: python_script_runtime needs none"
start=$(cat "${0%/*}/start_uv.py")
directory=${RYE_WORKING_DIRECTORY:-$PWD}
unset VIRTUAL_ENV
cd / || fail "expected to get into /, found no way"
exec "$uv" run --quiet --no-project --no-env-file - "$tool" "$directory" "$@" <<END
$block
$start
END
