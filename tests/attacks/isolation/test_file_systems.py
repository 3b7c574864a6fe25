"""A project is on a file system of a program, where a tool can do what it can't on a disk of this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import fuse_file_system

MOUNTED = """
mkdir -p behind/docs project home/.local/state; mkfifo told; echo SECRET=old > behind/.env
"$0" "$1" /dev/fuse behind project $3 < /dev/null > told & read ready < told
"$0" -c "$2" "$PWD/project" "$PWD/home"; umount project; wait
"""
SPELLS_OTHERWISE = """
import os, sys
from rye_mcp.executor.job.planted import Missing, present
from rye_mcp.permissions.planning import GUARDED

os.chdir(sys.argv[1])
names = [f"{sys.argv[1]}/{name}" for name in GUARDED]
missing = Missing.among(dict.fromkeys(names), f"{sys.argv[2]}/rye/trash")
os.mkdir(".GIT")
print(os.path.exists(".git"), [os.path.basename(path) for path in present(names)])
print(len(missing.take_away("run")), os.path.exists(".git"))
"""
HIDES_THE_CHANGE = """
import os, sys
from pathlib import Path
from lilux import _footprints
from lilux.primitives.subprocess import CallSpec, Halves, RuntimeSpec
from rye_mcp.executor.job.confinement import Confinement, Rights
from rye_mcp.permissions import Access, Permissions
from rye_mcp.spaces import Spaces

_footprints.SETTLED_NS = -(10**12)  # whatever is there is old
project, home = map(Path, sys.argv[1:])
confinement = Confinement(Spaces.locate(project, user=home), project, home / "state", {"HOME": str(home)})
rights = Rights(Permissions(project=Access.READ), "demo/reads", ("person",))
def hidden():
    process = Halves(RuntimeSpec(command="/bin/true", env={}), CallSpec())
    print([os.path.basename(path) for path in confinement.confine(rights, process).policy.mask])
(project / ".env").unlink()
hidden()
before = project.stat()
(project / ".env").touch()
os.utime(project, ns=(before.st_atime_ns, before.st_mtime_ns))
hidden()
"""


def ran(place: Path, program: str, cases: str = "") -> list[str]:
    """What a program prints of a project in such a file system."""
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        pytest.skip("no file system of a program can be mounted here")
    around = ["unshare", "--user", "--map-root-user", "--mount", "--propagation", "private"]
    tried = subprocess.run([*around, "mount", "-t", "tmpfs", "none", place], check=False, capture_output=True)
    if tried.returncode != 0:
        pytest.skip(f"nobody but root may mount here: {tried.stderr!r}")
    command = [*around, "sh", "-ec", MOUNTED, sys.executable, fuse_file_system.__file__, program, cases]
    said = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False, timeout=60)
    assert said.returncode == 0, said.stderr
    return said.stdout.splitlines()


def test_a_name_in_another_spelling_is_found_where_it_is_the_same_name(tmp_path: Path) -> None:
    there, taken = ran(tmp_path, SPELLS_OTHERWISE, "alike")
    assert there == "True ['.git']"
    assert taken == "1 False"


def test_what_appears_is_hidden_although_a_tool_has_set_the_time_of_that_back(tmp_path: Path) -> None:
    """Also from a tool that can only read the project."""
    assert ran(tmp_path, HIDES_THE_CHANGE) == ["[]", "['.env']"]
