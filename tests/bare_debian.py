"""A Debian that has Python, git and nothing else: no compiler, no Rust, no clone of this project.

`debootstrap` makes that system in a directory. It is entered in a mount and process namespace of its own, so
nothing is mounted on the machine that runs the tests, and what was started there ends with the shell.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.document_pages import NO_GIT_IDENTITY, Shell

__all__ = ["ShellOfTheRoot", "make_debian"]

RELEASE = "bookworm"
PACKAGES = "python3,python3-venv,git,ca-certificates"
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")

ENTER = """
set -e
mount --bind {root} {root}
mount -t proc proc {root}/proc
mount --rbind /dev {root}/dev
cd {root}
exec chroot . env -i -C "$0" "$@"
"""


class ShellOfTheRoot(Shell):
    """A shell in which the directory is the whole file system."""

    def __init__(self, root: Path, place: str) -> None:
        self.root = root
        (root / place.lstrip("/")).mkdir(parents=True)
        own = {name: text for name, text in os.environ.items() if name.startswith(("PIP_", "SSL_CERT"))}
        variables = (
            own
            | NO_GIT_IDENTITY
            | {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": place, "LOGNAME": "alice", "LC_ALL": "C.UTF-8"}
        )
        namespaces = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private"]
        script = ENTER.format(root=shlex.quote(str(root)))
        command = [
            *namespaces,
            "sh",
            "-c",
            script,
            place,
            *map("=".join, variables.items()),
            "bash",
            "--norc",
        ]
        self._open(command, Path("/"), os.environ)


def make_debian(root: Path) -> None:
    """Make a new system in a directory, with what a package registry needs to be reached from it."""
    if shutil.which("debootstrap") is None or os.geteuid() != 0:
        pytest.skip("debootstrap is not installed, or this is not root")
    root.chmod(0o755)
    command = ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", RELEASE, str(root)]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stdout[-2000:] + made.stderr[-2000:]
    for file in (Path("/etc/resolv.conf"), Path("/etc/hosts"), CERTIFICATES):
        if file.exists():
            (root / file.relative_to("/")).write_bytes(file.read_bytes())
